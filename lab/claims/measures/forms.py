"""Everything that is said to be a norm, as a function of x, a gain and eps, under one name."""
# ruff: noqa: ARG005  Not every form has a gain or an eps.

import importlib
from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn

from cs_basics.norms import LayerNorm, RMSNorm
from cs_basics.variants.norms import (
    GatedRMSNorm,
    GemmaRMSNorm,
    GroupRMSNorm,
    LlamaRMSNorm,
    PartialRMSNorm,
)
from lab.claims.measures.batch_norm import BatchNorm
from lab.norms.rms_norm import FusedRMSNorm


class Form(Protocol):
    """A function of vectors along the last axis."""

    def __call__(self, x: Tensor, gain: Tensor, eps: float) -> Tensor:
        """Return what comes out, in the shape of x."""
        ...


KINDS: dict[str, Callable[..., nn.Module]] = {
    "RMSNorm": RMSNorm,
    "LayerNorm": LayerNorm,
    "LayerNorm without bias": partial(LayerNorm, bias=False),
    "LlamaRMSNorm": LlamaRMSNorm,
    "GemmaRMSNorm": GemmaRMSNorm,
    "PartialRMSNorm": PartialRMSNorm,
    "RMSNorm of one group": partial(GroupRMSNorm, num_groups=1),
    "RMSNorm of 8 groups": partial(GroupRMSNorm, num_groups=8),
    "FusedRMSNorm": FusedRMSNorm,
    "torch's RMSNorm": nn.RMSNorm,
    "torch's LayerNorm": nn.LayerNorm,
    "BatchNorm": BatchNorm,
    "none": lambda *_: nn.Identity(),
}


def of(kind: str) -> Form:
    """Return what a module computes with a given gain."""

    def form(x: Tensor, gain: Tensor, eps: float) -> Tensor:
        norm = KINDS[kind](x.shape[-1], eps).to(gain.dtype)
        norm.weight = nn.Parameter(gain - 1 if kind == "GemmaRMSNorm" else gain)
        return norm(x)

    return form


def mean_square(x: Tensor) -> Tensor:
    """Return the mean of the squares of each vector."""
    return (x * x).mean(-1, keepdim=True)


def centred(x: Tensor) -> Tensor:
    """Return x without its mean."""
    return x - x.mean(-1, keepdim=True)


def circulating(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    """Return what Llama's lines return, promotion included: weight * x.to(input_dtype)."""
    wide = x.to(torch.float32)
    return gain * (wide * torch.rsqrt(mean_square(wide) + eps)).to(x.dtype)


def in_place(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    """Return the norm that is computed over a copy of x in float32, as inference engines do."""
    wide = x.to(torch.float32, copy=True)
    return wide.mul_(torch.rsqrt(mean_square(wide) + eps)).to(x.dtype).mul_(gain)


def one_by_one(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    """Return the norm whose squares are added one by one in the dtype of x."""
    total = torch.zeros_like(x[..., 0])
    for column in x.unbind(-1):
        total = total + column * column
    return x * torch.rsqrt(total / x.shape[-1] + eps).unsqueeze(-1) * gain


def gated(x: Tensor, gain: Tensor, eps: float, *, gate_first: bool) -> Tensor:
    """Return RMSNorm with x, turned around, as its gate."""
    norm = GatedRMSNorm(x.shape[-1], eps, dtype=gain.dtype, gate_first=gate_first)
    norm.weight = nn.Parameter(gain)
    return norm(x, x.flip(0))


def of_transformers(x: Tensor, gain: Tensor, eps: float, *, model: str, name: str) -> Tensor:
    """Return what a norm of transformers computes."""
    modeling = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    norm = getattr(modeling, name)(x.shape[-1], eps)
    norm.weight = nn.Parameter(gain)
    return norm(x)


def mamba(x: Tensor, gain: Tensor, eps: float, *, groups: int) -> Tensor:
    """Return transformers' gated norm of Mamba-2, of the same inputs."""
    modeling = importlib.import_module("transformers.models.mamba2.modeling_mamba2")
    norm = modeling.MambaRMSNormGated(x.shape[-1], x.shape[-1] // groups, eps)
    norm.weight = nn.Parameter(gain)
    return norm(x, x.flip(0))


FORMS: dict[str, Form] = {
    **{kind: of(kind) for kind in KINDS},
    "RMSNorm twice": lambda x, gain, eps: of("RMSNorm")(of("RMSNorm")(x, gain, eps), gain, eps),
    "RMSNorm of x - mean(x)": lambda x, gain, eps: of("RMSNorm")(centred(x), gain, eps),
    "centred alone": lambda x, gain, eps: centred(x) * gain,
    "the gain alone": lambda x, gain, eps: x * gain,
    "eps outside": lambda x, gain, eps: x / (mean_square(x).sqrt() + eps) * gain,
    "LayerNorm, eps outside": lambda x, gain, eps: (
        centred(x) / (mean_square(centred(x)).sqrt() + eps) * gain
    ),
    "eps in the RMS and again": lambda x, gain, eps: (
        x / ((mean_square(x) + eps).sqrt().square() + eps).sqrt() * gain
    ),
    "divided by the length": lambda x, gain, eps: x / (x.shape[-1] * mean_square(x)).sqrt() * gain,
    "divided by the deviation": lambda x, gain, eps: (
        x / x.std(-1, correction=0, keepdim=True) * gain
    ),
    "x rsqrt(m)": lambda x, gain, eps: x * torch.rsqrt(mean_square(x) + eps),
    "x / sqrt(m)": lambda x, gain, eps: x / torch.sqrt(mean_square(x) + eps),
    "x (1 / sqrt(m))": lambda x, gain, eps: x * (1 / torch.sqrt(mean_square(x) + eps)),
    "a root of 8 bits": lambda x, gain, eps: x * torch.rsqrt(mean_square(x) + eps).bfloat16(),
    "weight * x / sqrt(m)": lambda x, gain, eps: gain * x / torch.sqrt(mean_square(x) + eps),
    "RMS^2": lambda x, gain, eps: mean_square(x),
    "variance": lambda x, gain, eps: x.var(-1, correction=0, keepdim=True),
    "variance + mean^2": lambda x, gain, eps: (
        x.var(-1, correction=0, keepdim=True) + x.mean(-1, keepdim=True).square()
    ),
    "the circulating lines": circulating,
    "in place": in_place,
    "squares added one by one": one_by_one,
    "the gate after": partial(gated, gate_first=False),
    "the gate before": partial(gated, gate_first=True),
    "transformers' LlamaRMSNorm": partial(of_transformers, model="llama", name="LlamaRMSNorm"),
    "transformers' T5LayerNorm": partial(of_transformers, model="t5", name="T5LayerNorm"),
    "Mamba-2's": partial(mamba, groups=1),
    "Mamba-2's, 8 groups": partial(mamba, groups=8),
}
