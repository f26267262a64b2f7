"""What a change of its input does to the output of a norm: at the places that did not change."""

import torch
from torch import Tensor

from lab.claims.measures.draws import largest, normal
from lab.claims.measures.forms import KINDS
from lab.claims.rules import Figures

SAMPLES, LENGTH, D = 4, 10, 64
OWN = torch.linspace(-1, 1, SAMPLES * LENGTH, dtype=torch.float64).view(SAMPLES, LENGTH, 1)
"""A number for each vector."""


def changed(x: Tensor, statement: str) -> Tensor:
    """Return x after a statement that changes it; `own` is OWN."""
    x = x.clone()
    exec(statement, {"x": x, "own": OWN})
    return x


@torch.no_grad()
def moved(
    seed: int, kind: str, *, change: str, start: str = "", seen: str = "y", eps: float = 0.0
) -> Figures:
    """Compare the outputs before and after a change.

    Args:
        seed: Decides the vectors.
        kind: Of the norm.
        change: Statement that changes x, (samples, positions, D), in place.
        start: Such a statement that comes before.
        seen: Part of the output y that is looked at.
        eps: The norm's eps.
    """
    x, norm = changed(normal(seed, SAMPLES, LENGTH, D), start), KINDS[kind](D, eps).double()
    before, after = (eval(seen, {"y": norm(each)}) for each in (x, changed(x, change)))
    units = [y / y.norm(dim=-1, keepdim=True) for y in (before, after)]
    return {
        "": largest(after - before),
        "percent": 100 * ((after - before).norm() / before.norm()).item(),
        "direction": largest(units[0] - units[1]),
    }
