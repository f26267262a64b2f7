"""What a norm forgets is missing from its gradient."""

import torch
from torch import Tensor

from cs_basics.norms import LayerNorm, RMSNorm
from lab.claims.claim import Claim, Values, true_if
from lab.claims.draws import largest, normal
from lab.claims.sources import CIRCULATES, XIONG, ZHANG

D = 64


def gradient(norm: RMSNorm | LayerNorm, x: Tensor, cotangent: Tensor) -> Tensor:
    """Return the gradient of sum(norm(x) * cotangent) by x."""
    x = x.detach().requires_grad_()
    return torch.autograd.grad(norm(x), x, cotangent)[0]


def along_x(seed: int) -> Values:
    """Cosine of the angle between gradient and input."""
    x, cotangent = normal(seed, 20, D), normal(seed + 1, 20, D)
    found = gradient(RMSNorm(D, eps=0.0).double(), x, cotangent)
    cosine = (found * x).sum(-1) / found.norm(dim=-1) / x.norm(dim=-1)
    return {"largest cosine": largest(cosine)}


def along_ones(seed: int) -> Values:
    """Cosine of the angle between gradient and the vector of ones."""
    x, cotangent = normal(seed, 20, D), normal(seed + 1, 20, D)
    cosines: dict[str, float] = {}
    for name, kind in (("RMSNorm", RMSNorm), ("LayerNorm", LayerNorm)):
        found = gradient(kind(D, eps=0.0).double(), x, cotangent)
        cosines[name] = largest(found.sum(-1) / found.norm(dim=-1) / D**0.5)
    return cosines


def shrinking(seed: int) -> Values:
    """Size of the gradient when x is made ten times as long, relative to before."""
    norm = RMSNorm(D, eps=0.0).double()
    x, cotangent = normal(seed, 20, D), normal(seed + 1, 20, D)
    ratio = gradient(norm, 10 * x, cotangent).norm() / gradient(norm, x, cotangent).norm()
    return {"|gradient at 10 x| / |gradient at x|": ratio.item()}


def rank(seed: int) -> Values:
    """Directions that reach the output: the rank of the Jacobian."""
    x = normal(seed, D)
    ranks: dict[str, float] = {}
    for name, kind in (("RMSNorm", RMSNorm), ("LayerNorm", LayerNorm)):
        norm = kind(D, eps=0.0).double()
        jacobian = torch.autograd.functional.jacobian(norm, x)
        ranks[f"d - rank, {name}"] = float(D - torch.linalg.matrix_rank(jacobian).item())
    return ranks


CLAIMS = [
    Claim(
        name="gradient-orthogonal",
        says="The gradient that passes RMSNorm is at right angles to its input.",
        source=f"follows from {ZHANG}, sec. 4.2",
        shows="largest cosine between gradient and input, 20 vectors; float64, d = 64, eps = 0",
        measure=along_x,
        verdict=lambda v: true_if(v["largest cosine"].most < 1e-12),
    ),
    Claim(
        name="gradient-mean-zero",
        says="LayerNorm's gradient has mean zero, too; RMSNorm's does not.",
        source=CIRCULATES,
        shows="largest cosine between gradient and the vector of ones, 20 vectors; float64",
        measure=along_ones,
        verdict=lambda v: true_if(v["LayerNorm"].most < 1e-12 and v["RMSNorm"].least > 0.01),
    ),
    Claim(
        name="gradient-shrinks",
        says="The gradient goes as 1 / |x|: a longer input slows what is before the norm.",
        source=f"{ZHANG}, sec. 4.2; {XIONG}",
        shows="gradient where x is ten times as long, float64, eps = 0",
        measure=shrinking,
        verdict=lambda v: true_if(
            abs(v["|gradient at 10 x| / |gradient at x|"].mean - 0.1) < 1e-10
        ),
    ),
    Claim(
        name="directions-lost",
        says="RMSNorm loses one direction of d (the length), LayerNorm two (length and mean).",
        source=CIRCULATES,
        shows="d minus the rank of the Jacobian, d = 64, float64, eps = 0",
        measure=rank,
        verdict=lambda v: true_if(
            (v["d - rank, RMSNorm"].mean, v["d - rank, LayerNorm"].mean) == (1, 2)
        ),
    ),
]
