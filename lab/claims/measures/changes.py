"""What a change of its input does to the output of a norm: at the places that did not change."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from lab.claims.measures.draws import normal
from lab.claims.measures.forms import KINDS
from lab.claims.rules import Figures

SAMPLES, LENGTH, D = 4, 10, 64
OWN_NUMBERS = torch.linspace(-1, 1, SAMPLES * LENGTH, dtype=torch.float64).view(SAMPLES, LENGTH, 1)
Change = Callable[[Tensor, float], Tensor]
"""Returns the changed x, (samples, positions, D)."""
ALL = slice(None)
Part = tuple[Any, ...]
"""What stands in x[...]."""


def where(mask: Part, change: Change) -> Change:
    """Return the change of a part of x."""

    def changed(x: Tensor, size: float) -> Tensor:
        x = x.clone()
        x[mask] = change(x[mask], size)
        return x

    return changed


CHANGES: Mapping[str, tuple[Change, Part]] = {
    # A change, and the part of the output that is looked at.
    "each vector scaled": (lambda x, size: x * size**OWN_NUMBERS, (ALL,)),
    "each vector shifted": (lambda x, size: x + size * OWN_NUMBERS, (ALL,)),
    "all scaled": (lambda x, size: x * size, (ALL,)),
    "one neuron scaled": (where((..., 0), lambda x, size: x * size), (ALL,)),
    "one of 8 groups scaled": (where((..., slice(D // 8)), lambda x, size: x * size), (ALL,)),
    "other samples": (where((slice(1, None),), lambda x, size: x * size + 1), (0,)),
    "other samples padded": (
        where((slice(1, None), slice(LENGTH // 2, None)), lambda x, _: 0 * x),
        (0,),
    ),
    "later positions": (where((ALL, slice(1, None)), lambda x, size: x * size), (ALL, 0)),
    "a feature pruned": (where((..., 0), lambda x, _: 0 * x), (..., slice(1, None))),
}


@torch.no_grad()
def moved(
    seed: int,
    *,
    norms: Mapping[str, str],
    change: str,
    size: float = 7.0,
    feature: float = 0.0,
    eps: float = 0.0,
) -> Figures:
    """Compare the outputs before and after a change.

    Args:
        seed: Decides the vectors.
        norms: Kinds by the names that their figures get.
        change: A key of CHANGES.
        size: How large the change is.
        feature: Value of coordinate 0 of every vector; 0: as drawn.
        eps: The norms' eps.
    """
    x = normal(seed, SAMPLES, LENGTH, D)
    if feature:
        x[..., 0] = feature
    function, part = CHANGES[change]
    figures: dict[str, float] = {}
    for name, kind in norms.items():
        norm = KINDS[kind](D, eps).double()
        before, after = norm(x)[part], norm(function(x, size))[part]
        units = [y / y.norm(dim=-1, keepdim=True) for y in (before, after)]
        figures |= {
            name: (after - before).abs().max().item(),
            f"{name}_percent": 100 * ((after - before).norm() / before.norm()).item(),
            f"{name}_direction": (units[0] - units[1]).abs().max().item(),
        }
    return figures


def gradient_of_others(seed: int, *, norms: Mapping[str, str]) -> Figures:
    """Size of the gradient of the first sample's output with respect to the other samples."""
    sizes: dict[str, float] = {}
    for name, kind in norms.items():
        x = normal(seed, SAMPLES, LENGTH, D).requires_grad_()
        output = KINDS[kind](D).double()(x)[0]
        (found,) = torch.autograd.grad(output, x, normal(seed + 1, LENGTH, D))
        sizes[name] = found[1:].norm().item()
    return sizes
