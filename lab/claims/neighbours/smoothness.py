"""How smooth feed-forward parts are: second differences along a line in the space of inputs."""

import torch
from torch import Tensor, nn

from cs_basics.layers import SwiGLU
from cs_basics.variants.feed_forward import ACTIVATIONS, FeedForward
from lab.claims.claim import Values, claim
from lab.claims.draws import normal

D, POINTS = 32, 4000
NAMES = ("swiglu", *ACTIVATIONS)
RATIO = "step 0.001 / step 0.01"


def part(name: str) -> nn.Module:
    """Return a feed-forward part by the name of its activation."""
    if name == "swiglu":
        return SwiGLU(D, 8 * D // 3).double()
    return FeedForward(D, 4 * D, activation=name).double()


def curvature(function: nn.Module, seed: int, step: float) -> float:
    """Return the largest |f(x + h) - 2 f(x) + f(x - h)| / h^2 on a line of length 2."""
    direction = normal(seed, D)
    direction = direction / direction.norm()
    x = (
        normal(seed + 1, D)
        + torch.linspace(-1, 1, POINTS, dtype=torch.float64)[:, None] * direction
    )
    ahead, here, behind = (function(x + side * step * direction) for side in (1, 0, -1))
    return peak(ahead - 2 * here + behind) / step**2


@claim(
    "smooth",
    lambda v: (
        v[f"relu: {RATIO}"].least > 5
        and all(v[f"{name}: {RATIO}"].most < 2 for name in NAMES if name != "relu")
    ),
)
@torch.no_grad()
def curvatures(seed: int) -> Values:
    """Growth of each part's curvature as the step shrinks to a tenth: 10 at a kink."""
    values: dict[str, float] = {}
    for name in NAMES:
        torch.manual_seed(seed)
        function = part(name)
        fine, coarse = (curvature(function, seed, step) for step in (1e-3, 1e-2))
        values[f"{name}: {RATIO}"] = fine / coarse
    return values


def peak(x: Tensor) -> float:
    """Return the largest length of a row."""
    return x.norm(dim=-1).max().item()
