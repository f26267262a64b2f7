"""Every way to compute a norm, and to add and then normalise, that the benchmark compares."""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cs_basics.norms import LayerNorm, RMSNorm
from cs_basics.variants.norms import LlamaRMSNorm
from lab.norms.add_rms_norm import add_rms_norm
from lab.norms.rms_norm import FusedRMSNorm

EPS = 1e-5
OURS, OURS_COMPILED = "RMSNorm", "RMSNorm, compiled"
FUSED = "FusedRMSNorm"
"""Compiled it is the formula of RMSNorm."""
LLAMA, LLAMA_PEER = "LlamaRMSNorm", "LlamaRMSNorm (transformers)"
TORCH, TORCH_COMPILED = "torch.nn.RMSNorm", "torch.nn.RMSNorm, compiled"
LAYERNORM, LAYERNORM_COMPILED = "LayerNorm", "LayerNorm, compiled"
TORCH_LAYERNORM = "torch.nn.LayerNorm"
COMPILED = {OURS: OURS_COMPILED, TORCH: TORCH_COMPILED, LAYERNORM: LAYERNORM_COMPILED}
ADD_THEN_NORM, ADD_NORM_FUSED = "add, RMSNorm", "add_rms_norm, FusedRMSNorm"
ADD_THEN_NORM_COMPILED = "add, RMSNorm, each compiled"
ADD_NORM_COMPILED = "add_rms_norm, RMSNorm, compiled"
ADD_NORM_FUSED_COMPILED = "add_rms_norm, FusedRMSNorm, compiled"


class Contender(NamedTuple):
    """One way to compute the operation."""

    name: str
    function: Callable[..., Tensor | tuple[Tensor, Tensor]]
    parameters: list[nn.Parameter]


def llama_rms_norm() -> type[nn.Module] | None:
    """Return the class of the transformers package, None if that is not installed."""
    try:
        module = importlib.import_module("transformers.models.llama.modeling_llama")
    except ImportError:
        return None
    return module.LlamaRMSNorm


def norm_contenders(
    d_model: int, dtype: torch.dtype, device: torch.device, can_compile: bool
) -> list[Contender]:
    """Return every implementation of a norm over d_model coordinates."""
    modules: dict[str, nn.Module] = {
        OURS: RMSNorm(d_model, EPS),
        FUSED: FusedRMSNorm(d_model, EPS),
        LLAMA: LlamaRMSNorm(d_model, EPS),
        TORCH: nn.RMSNorm(d_model, EPS),
        LAYERNORM: LayerNorm(d_model, EPS),
        TORCH_LAYERNORM: nn.LayerNorm(d_model, EPS),
    }
    if (llama := llama_rms_norm()) is not None:
        modules[LLAMA_PEER] = llama(d_model, EPS)
    contenders: list[Contender] = []
    for name, module in modules.items():
        module.to(device, dtype)
        contenders.append(Contender(name, module, list(module.parameters())))
    if can_compile:
        torch.compiler.reset()
        contenders += [
            Contender(COMPILED[c.name], _compiled(c.function), c.parameters)
            for c in contenders
            if c.name in COMPILED
        ]
    return contenders


def add_norm_contenders(
    d_model: int, dtype: torch.dtype, device: torch.device, can_compile: bool
) -> list[Contender]:
    """Return every way to add x to the residual stream and normalise the sum."""
    norm = RMSNorm(d_model, EPS, device, dtype)
    fused = FusedRMSNorm(d_model, EPS, device, dtype)
    of_norm, of_fused = list(norm.parameters()), list(fused.parameters())
    contenders = [
        Contender(ADD_THEN_NORM, partial(_add_then_norm, _add, norm), of_norm),
        Contender(ADD_NORM_FUSED, partial(add_rms_norm, fused), of_fused),
    ]
    if can_compile:
        torch.compiler.reset()
        each = partial(_add_then_norm, _compiled(_add), _compiled(norm))
        contenders += [
            Contender(ADD_THEN_NORM_COMPILED, each, of_norm),
            Contender(ADD_NORM_COMPILED, _compiled(partial(add_rms_norm, norm)), of_norm),
            Contender(ADD_NORM_FUSED_COMPILED, _compiled(partial(add_rms_norm, fused)), of_fused),
        ]
    return contenders


def _add(x: Tensor, residual: Tensor) -> Tensor:
    return x + residual


def _add_then_norm(
    add: Callable[..., Tensor], norm: Callable[..., Tensor], x: Tensor, residual: Tensor
) -> tuple[Tensor, Tensor]:
    total = add(x, residual)
    return norm(total), total


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile as a user would; fullgraph turns a silent return to eager into an error."""
    return torch.compile(function, fullgraph=True)
