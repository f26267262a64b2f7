"""What a norm forgets is missing from its gradient; near zero the place of eps decides."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from lab.claims.measures.draws import largest, normal, rms
from lab.claims.measures.forms import form
from lab.claims.rules import Figures

D = 64


def function_of(norm: str, eps: float) -> Callable[[Tensor], Tensor]:
    """Return a form with gain 1."""
    return partial(form(norm), gain=torch.ones(D, dtype=torch.float64), eps=eps)


def passed(function: Callable[[Tensor], Tensor], x: Tensor, cotangent: Tensor) -> Tensor:
    """Return the gradient of sum(function(x) * cotangent) by x."""
    x = x.detach().requires_grad_()
    return torch.autograd.grad(function(x), x, cotangent)[0]


def cosines(seed: int, norm: str, *, eps: float = 0.0) -> Figures:
    """Largest cosines between gradient and input, and gradient and ones; ranks; shrinking."""
    x, cotangent = normal(seed, 20, D), normal(seed + 1, 20, D)
    function = function_of(norm, eps)
    found, longer = (passed(function, size * x, cotangent) for size in (1, 10))
    unit = found / found.norm(dim=-1, keepdim=True)
    jacobian = torch.autograd.functional.jacobian(function, x[0])
    return {
        "with_x": largest((unit * x / x.norm(dim=-1, keepdim=True)).sum(-1)),
        "with_ones": largest(unit.sum(-1) / D**0.5),
        "lost": float(D - torch.linalg.matrix_rank(jacobian).item()),
        "at_10_x": (longer.norm() / found.norm()).item(),
    }


def near_zero(seed: int, norm: str, *, size: float, eps: float = 1e-5) -> Figures:
    """How much a gradient grows, share of it that is a number, and the slope as a difference."""
    x, cotangent = normal(seed, D), normal(seed + 1, D)
    x, step, function = size * x / rms(x), 1e-12 * cotangent, function_of(norm, eps)
    found = passed(function, x, cotangent)
    return {
        "growth": (found.norm() / cotangent.norm()).nan_to_num().item(),
        "finite_percent": 100 * found.isfinite().double().mean().item(),
        "slope": ((function(x + step) - function(x)).norm() / step.norm()).item(),
    }
