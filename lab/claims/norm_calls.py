"""The norms whose costs are compared, and calls of them in both directions."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from cs_basics.norms import LayerNorm, RMSNorm
from lab.norms.rms_norm import FusedRMSNorm

EPS = 1e-5


def norms(d_model: int) -> dict[str, nn.Module]:
    """Return each norm by its name."""
    return {
        "RMSNorm": RMSNorm(d_model, EPS),
        "LayerNorm": LayerNorm(d_model, EPS),
        "torch.nn.RMSNorm": nn.RMSNorm(d_model, EPS),
        "torch.nn.LayerNorm": nn.LayerNorm(d_model, EPS),
        "LayerNorm, no bias": LayerNorm(d_model, EPS, bias=False),
        "FusedRMSNorm": FusedRMSNorm(d_model, EPS),
    }


def calls_of(module: nn.Module, x: Tensor) -> dict[str, Callable[[], object]]:
    """Return the forward pass and both passes of a norm as functions without arguments.

    Args:
        module: The norm, compiled or not.
        x: Input that requires a gradient.
    """
    parameters, gradient = list(module.parameters()), torch.ones_like(x)
    return {
        "forward": lambda: module(x),
        "both": lambda: torch.autograd.grad(module(x), [x, *parameters], gradient),
    }
