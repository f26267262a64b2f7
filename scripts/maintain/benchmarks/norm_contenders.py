"""Every way to compute a norm, and to add and then normalise, that the benchmark compares."""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cs_basics.fast.rms_norm import FusedRMSNorm
from cs_basics.norms import LayerNorm, RMSNorm

EPS = 1e-5
OURS, OURS_COMPILED = "RMSNorm", "RMSNorm, compiled"
OURS_FUNCTION, FUNCTION_COMPILED = "FusedRMSNorm", "FusedRMSNorm, compiled"
TORCH, TORCH_COMPILED = "torch.nn.RMSNorm", "torch.nn.RMSNorm, compiled"
LAYERNORM, LAYERNORM_COMPILED = "LayerNorm", "LayerNorm, compiled"
TORCH_LAYERNORM = "torch.nn.LayerNorm"
LLAMA = "LlamaRMSNorm (transformers)"
COMPILED = {
    OURS: OURS_COMPILED,
    OURS_FUNCTION: FUNCTION_COMPILED,
    TORCH: TORCH_COMPILED,
    LAYERNORM: LAYERNORM_COMPILED,
}
PAIR, FUSED, FUSED_FUNCTION = "add, RMSNorm", "RMSNorm.add", "FusedRMSNorm.add"
"""The second and third: add_rms_norm of the class."""
PAIR_COMPILED, FUSED_COMPILED = "add, RMSNorm, both compiled", "RMSNorm.add, compiled"
FUNCTION_PAIR_COMPILED = "add, FusedRMSNorm, both compiled"
FUNCTION_FUSED_COMPILED = "FusedRMSNorm.add, compiled"


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
        OURS_FUNCTION: FusedRMSNorm(d_model, EPS),
        TORCH: nn.RMSNorm(d_model, EPS),  # noqa: TID251 (a peer)
        LAYERNORM: LayerNorm(d_model, EPS),
        TORCH_LAYERNORM: nn.LayerNorm(d_model, EPS),  # noqa: TID251 (a peer)
    }
    if (llama := llama_rms_norm()) is not None:
        modules[LLAMA] = llama(d_model, EPS)
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
    own = FusedRMSNorm(d_model, EPS, device, dtype)
    of_norm, of_own = list(norm.parameters()), list(own.parameters())
    contenders = [
        Contender(PAIR, partial(_add_then_norm, _add, norm), of_norm),
        Contender(FUSED, norm.add_rms_norm, of_norm),
        Contender(FUSED_FUNCTION, own.add_rms_norm, of_own),
    ]
    if can_compile:
        torch.compiler.reset()
        add = _compiled(_add)
        pair = partial(_add_then_norm, add, _compiled(norm))
        own_pair = partial(_add_then_norm, add, _compiled(own))
        contenders += [
            Contender(PAIR_COMPILED, pair, of_norm),
            Contender(FUSED_COMPILED, _compiled(norm.add_rms_norm), of_norm),
            Contender(FUNCTION_PAIR_COMPILED, own_pair, of_own),
            Contender(FUNCTION_FUSED_COMPILED, _compiled(own.add_rms_norm), of_own),
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
