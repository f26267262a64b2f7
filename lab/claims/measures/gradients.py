"""What a norm forgets is missing from its gradient; near zero the place of eps decides."""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from lab.claims.measures.draws import normal
from lab.claims.measures.forms import FORMS
from lab.claims.rules import Figures

D = 64


def function_of(form: str, eps: float) -> Callable[[Tensor], Tensor]:
    """Return a form with gain 1."""
    gain = torch.ones(D, dtype=torch.float64)
    return partial(FORMS[form], gain=gain, eps=eps)


def passed(form: str, eps: float, x: Tensor, cotangent: Tensor) -> Tensor:
    """Return the gradient of sum(form(x) * cotangent) by x."""
    x = x.detach().requires_grad_()
    return torch.autograd.grad(function_of(form, eps)(x), x, cotangent)[0]


def cosines(seed: int, *, norms: Mapping[str, str], eps: float = 0.0) -> Figures:
    """Largest cosines between gradient and input, and gradient and ones; ranks; shrinking."""
    x, cotangent = normal(seed, 20, D), normal(seed + 1, 20, D)
    figures: dict[str, float] = {}
    for name, form in norms.items():
        found = passed(form, eps, x, cotangent)
        longer = passed(form, eps, 10 * x, cotangent)
        unit = found / found.norm(dim=-1, keepdim=True)
        jacobian = torch.autograd.functional.jacobian(function_of(form, eps), x[0])
        figures |= {
            f"{name}_with_x": (unit * x / x.norm(dim=-1, keepdim=True)).sum(-1).abs().max().item(),
            f"{name}_with_ones": (unit.sum(-1) / D**0.5).abs().max().item(),
            f"{name}_lost": float(D - torch.linalg.matrix_rank(jacobian).item()),
            f"{name}_at_10_x": (longer.norm() / found.norm()).item(),
        }
    return figures


def near_zero(seed: int, *, forms: Mapping[str, str], size: float, eps: float = 1e-5) -> Figures:
    """How much a gradient grows, share of it that is a number, and the slope as a difference."""
    x, cotangent = normal(seed, D), normal(seed + 1, D)
    x, figures = size * x / x.square().mean().sqrt(), dict[str, float]()
    for name, form in forms.items():
        found, step = passed(form, eps, x, cotangent), 1e-12 * cotangent
        slope = function_of(form, eps)(x + step) - function_of(form, eps)(x)
        figures |= {
            f"{name}_growth": (found.norm() / cotangent.norm()).nan_to_num().item(),
            f"{name}_finite_percent": 100 * found.isfinite().double().mean().item(),
            f"{name}_slope": (slope.norm() / step.norm()).item(),
        }
    return figures
