"""What a norm forgets is missing from its gradient."""

import torch
from torch import Tensor

from cs_basics.norms import LayerNorm, RMSNorm
from lab.claims.claim import Values, claim
from lab.claims.draws import largest, normal

D = 64


def gradient(norm: RMSNorm | LayerNorm, x: Tensor, cotangent: Tensor) -> Tensor:
    """Return the gradient of sum(norm(x) * cotangent) by x."""
    x = x.detach().requires_grad_()
    return torch.autograd.grad(norm(x), x, cotangent)[0]


@claim("gradient-orthogonal", lambda v: v["largest cosine"].most < 1e-12)
def along_x(seed: int) -> Values:
    """Cosine of the angle between gradient and input."""
    x, cotangent = normal(seed, 20, D), normal(seed + 1, 20, D)
    found = gradient(RMSNorm(D, eps=0.0).double(), x, cotangent)
    cosine = (found * x).sum(-1) / found.norm(dim=-1) / x.norm(dim=-1)
    return {"largest cosine": largest(cosine)}


@claim("gradient-mean-zero", lambda v: v["LayerNorm"].most < 1e-12 and v["RMSNorm"].least > 0.01)
def along_ones(seed: int) -> Values:
    """Cosine of the angle between gradient and the vector of ones."""
    x, cotangent = normal(seed, 20, D), normal(seed + 1, 20, D)
    cosines: dict[str, float] = {}
    for name, kind in (("RMSNorm", RMSNorm), ("LayerNorm", LayerNorm)):
        found = gradient(kind(D, eps=0.0).double(), x, cotangent)
        cosines[name] = largest(found.sum(-1) / found.norm(dim=-1) / D**0.5)
    return cosines


@claim(
    "gradient-shrinks", lambda v: abs(v["|gradient at 10 x| / |gradient at x|"].mean - 0.1) < 1e-10
)
def shrinking(seed: int) -> Values:
    """Size of the gradient when x is made ten times as long, relative to before."""
    norm = RMSNorm(D, eps=0.0).double()
    x, cotangent = normal(seed, 20, D), normal(seed + 1, 20, D)
    ratio = gradient(norm, 10 * x, cotangent).norm() / gradient(norm, x, cotangent).norm()
    return {"|gradient at 10 x| / |gradient at x|": ratio.item()}


@claim(
    "directions-lost",
    lambda v: (v["d - rank, RMSNorm"].mean, v["d - rank, LayerNorm"].mean) == (1, 2),
)
def rank(seed: int) -> Values:
    """Directions that reach the output: the rank of the Jacobian."""
    x = normal(seed, D)
    ranks: dict[str, float] = {}
    for name, kind in (("RMSNorm", RMSNorm), ("LayerNorm", LayerNorm)):
        norm = kind(D, eps=0.0).double()
        jacobian = torch.autograd.functional.jacobian(norm, x)
        ranks[f"d - rank, {name}"] = float(D - torch.linalg.matrix_rank(jacobian).item())
    return ranks
