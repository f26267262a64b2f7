"""Everything that is said to be a norm, as a function of x, a gain and eps: a name or a formula."""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from cs_basics.norms import RMSNorm
from cs_basics.variants.norms import (
    GemmaRMSNorm,
    GroupRMSNorm,
    LayerNorm,
    LlamaRMSNorm,
    PartialRMSNorm,
)
from lab.claims.measures.batch_norm import BatchNorm
from lab.claims.measures.carried import optional
from lab.norms.add_rms_norm import add_rms_norm, add_rms_norm_, add_rms_norm_unrounded
from lab.norms.gated import GatedRMSNorm
from lab.norms.rms_norm import FusedRMSNorm


class Form(Protocol):
    """A function of vectors along the last axis."""

    def __call__(self, x: Tensor, gain: Tensor, eps: float) -> Tensor:
        """Return what comes out, in the shape of x."""
        ...


def of_transformers(model: str, name: str, *arguments: float) -> nn.Module:
    """Return a norm of transformers."""
    modeling = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    return getattr(modeling, name)(*arguments)


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
    "transformers' LlamaRMSNorm": partial(of_transformers, "llama", "LlamaRMSNorm"),
    "transformers' T5LayerNorm": partial(of_transformers, "t5", "T5LayerNorm"),
    "BatchNorm": BatchNorm,
    "none": lambda *_: nn.Identity(),
}


def with_gain(norm: nn.Module, gain: Tensor) -> nn.Module:
    """Return a norm with a given gain."""
    norm = norm.to(gain.dtype)
    norm.weight = nn.Parameter(gain - 1 if isinstance(norm, GemmaRMSNorm) else gain)
    return norm


def mean_square(x: Tensor) -> Tensor:
    """Return the mean of the squares of each vector."""
    return (x * x).mean(-1, keepdim=True)


def centred(x: Tensor) -> Tensor:
    """Return x without its mean."""
    return x - x.mean(-1, keepdim=True)


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
    norm = GatedRMSNorm(x.shape[-1], eps, gate_first=gate_first)
    return with_gain(norm, gain)(x, x.flip(0))


def mamba(x: Tensor, gain: Tensor, eps: float, *, groups: int) -> Tensor:
    """Return transformers' gated norm of Mamba-2, of the same inputs."""
    d = x.shape[-1]
    norm = of_transformers("mamba2", "MambaRMSNormGated", d, d // groups, eps)
    return with_gain(norm, gain)(x, x.flip(0))


def rms_norm(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    """Return the book's RMSNorm."""
    return with_gain(RMSNorm(x.shape[-1], eps), gain)(x)


NAMES: dict[str, Any] = {
    named.__name__: named
    for named in (
        *(torch, mean_square, centred, in_place, one_by_one, gated, mamba, rms_norm),
        *(add_rms_norm, add_rms_norm_, add_rms_norm_unrounded, optional),
    )
}
"""What a formula may name."""


def form(text: str, **names: object) -> Form:
    """Return what a norm of KINDS computes with a given gain, or else a formula.

    Args:
        text: A key of KINDS, or an expression over x, gain, eps and NAMES.
        names: What else the expression may name.
    """
    if text in KINDS:
        return lambda x, gain, eps: with_gain(KINDS[text](x.shape[-1], eps), gain)(x)
    return eval(f"lambda x, gain, eps: ({text})", {**NAMES, **names})
