"""Add + norm in one: the norm reads the rounded sum or the unrounded one."""

from collections.abc import Callable

import torch
from torch import Tensor

from cs_basics.norms import RMSNorm
from lab.claims.claim import Values, claim
from lab.claims.draws import largest, normal
from lab.norms.add_rms_norm import add_rms_norm, add_rms_norm_, add_rms_norm_unrounded

D = 512
Form = Callable[[RMSNorm, Tensor, Tensor], tuple[Tensor, Tensor]]


def terms(seed: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the output of a part and a residual stream that is ten times as large."""
    return normal(seed, 200, D).to(dtype), (10 * normal(seed + 1, 200, D)).to(dtype)


@claim(
    "unrounded-sum",
    lambda v: (
        "true in float32, not in bfloat16"
        if v["float32: normalised values that differ, %"].most == 0
        and v["bfloat16: normalised values that differ, %"].least > 1
        else v["bfloat16: normalised values that differ, %"].most == 0
    ),
)
def differing(seed: int) -> Values:
    """Share of normalised values that differ between the two forms."""
    values: dict[str, float] = {}
    for dtype in (torch.float32, torch.bfloat16):
        x, residual = terms(seed, dtype)
        norm = RMSNorm(D, dtype=dtype)
        apart, _ = add_rms_norm(norm, x, residual)
        engine, _ = add_rms_norm_unrounded(norm, x, residual)
        values[f"{str(dtype)[6:]}: normalised values that differ, %"] = 100 * share(apart != engine)
    return values


@claim("unrounded-more-exact", lambda v: v["unrounded sum, %"].most < v["rounded sum, %"].least)
def errors(seed: int) -> Values:
    """Error (RMS) of each form in bfloat16 against float64; the result has RMS 1."""
    x, residual = terms(seed, torch.bfloat16)
    right, _ = add_rms_norm(RMSNorm(D).double(), x.double(), residual.double())
    forms: dict[str, Form] = {"rounded": add_rms_norm, "unrounded": add_rms_norm_unrounded}
    return {
        f"{name} sum, %": 100 * (form(RMSNorm(D), x, residual)[0].double() - right).norm().item()
        / right.norm().item()
        for name, form in forms.items()
    }  # fmt: skip


@claim("unrounded-stream", lambda v: v["values of the stream that differ, %"].most == 0)
def streams(seed: int) -> Values:
    """Share of the new residual stream that differs between the two forms."""
    x, residual = terms(seed, torch.bfloat16)
    _, apart = add_rms_norm(RMSNorm(D), x, residual)
    _, engine = add_rms_norm_unrounded(RMSNorm(D), x, residual)
    return {"values of the stream that differ, %": 100 * share(apart != engine)}


@claim("in-place-same", lambda v: v["largest difference"].most == 0)
def in_place(seed: int) -> Values:
    """Difference between the form that writes over its inputs and the one that does not."""
    differences: list[float] = []
    for dtype in (torch.float32, torch.bfloat16):
        x, residual = terms(seed, dtype)
        expected = add_rms_norm_unrounded(RMSNorm(D), x, residual)
        with torch.no_grad():
            found = add_rms_norm_(RMSNorm(D), x.clone(), residual.clone())
        differences += [largest(a - b) for a, b in zip(expected, found, strict=True)]
    return {"largest difference": max(differences)}


@claim("lost-updates", lambda v: v["updates that arrive, %"].most < 10)
def lost(seed: int) -> Values:
    """Share of a small update (up to 0.4) that reaches a bfloat16 stream of values near 300."""
    x = 0.4 * normal(seed, 200, D).clamp(-1, 1).bfloat16()
    residual = 300 + 20 * normal(seed + 1, 200, D).clamp(-1, 1).bfloat16()
    _, stream = add_rms_norm_unrounded(RMSNorm(D), x, residual)
    return {"updates that arrive, %": 100 * share(stream != residual)}


def share(condition: Tensor) -> float:
    """Return the share that is true."""
    return condition.double().mean().item()
