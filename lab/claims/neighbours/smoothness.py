"""How smooth feed-forward parts are: second differences along a line in the space of inputs."""

import torch
from torch import Tensor, nn

from cs_basics.layers import SwiGLU
from cs_basics.variants.feed_forward import ACTIVATIONS, FeedForward
from lab.claims.claim import Values, claim
from lab.claims.draws import normal

D, POINTS = 32, 4000
STEPS = (1e-1, 1e-2, 1e-3)
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


@torch.no_grad()
@claim(
    "smooth",
    lambda v: (
        v[f"relu: {RATIO}"].least > 5
        and all(v[f"{name}: {RATIO}"].most < 2 for name in NAMES if name != "relu")
    ),
    shown=tuple(f"{name}: {RATIO}" for name in NAMES),
)
def curvatures(seed: int) -> Values:
    """Curvature of each part by step, and its growth as the step shrinks: 10 at a kink."""
    values: dict[str, float] = {}
    for name in NAMES:
        torch.manual_seed(seed)
        function = part(name)
        found = {step: curvature(function, seed, step) for step in STEPS}
        values |= {f"{name}, step {step:g}": value for step, value in found.items()}
        values[f"{name}: {RATIO}"] = found[1e-3] / found[1e-2]
    return values


def peak(x: Tensor) -> float:
    """Return the largest length of a row."""
    return x.norm(dim=-1).max().item()
