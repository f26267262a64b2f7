"""How smooth feed-forward parts are: second differences along a line in the space of inputs."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from cs_basics.layers import SwiGLU
from cs_basics.variants.feed_forward import FeedForward
from lab.claims.measures.draws import normal
from lab.claims.rules import Figures

D, POINTS = 32, 4000


def curvature(function: Callable[[Tensor], Tensor], seed: int, step: float) -> float:
    """Return the largest |f(x + h) - 2 f(x) + f(x - h)| / h^2 on a line of length 2."""
    direction = normal(seed, D)
    direction = direction / direction.norm()
    along = torch.linspace(-1, 1, POINTS, dtype=torch.float64)[:, None] * direction
    x = normal(seed + 1, D) + along
    ahead, here, behind = (function(x + side * step * direction) for side in (1, 0, -1))
    return (ahead - 2 * here + behind).norm(dim=-1).max().item() / step**2


@torch.no_grad()
def curvatures(seed: int, *, parts: Mapping[str, str]) -> Figures:
    """Growth of each part's curvature as the step shrinks to a tenth: 10 at a kink."""
    figures: dict[str, float] = {}
    for name, kind in parts.items():
        torch.manual_seed(seed)
        part = SwiGLU(D, 8 * D // 3) if kind == "swiglu" else FeedForward(D, 4 * D, activation=kind)
        fine, coarse = (curvature(part.double(), seed, step) for step in (1e-3, 1e-2))
        figures[name] = fine / coarse
    return figures
