"""RMSNorm of queries and keys."""

import torch

from cs_basics.norms import RMSNorm
from lab.claims.claim import Values, claim
from lab.claims.draws import normal

D_HEAD, SIZES = 64, (1.0, 100.0)


@claim(
    "qk-norm-bounds",
    lambda v: v["with QK-norm, size 100"].most < 8.001 and v["without, size 100"].least > 10000.0,
)
def largest_logit(seed: int) -> Values:
    """Largest attention logit |q k| / sqrt(d_head) of 500 pairs, by the size of q and k."""
    norm, values = RMSNorm(D_HEAD).double(), dict[str, float]()
    q, k = normal(seed, 500, D_HEAD), normal(seed + 1, 500, D_HEAD)
    k[0] = q[0]  # The worst case: a query that equals its key.
    for size in SIZES:
        plain = (size * q * size * k).sum(-1) / D_HEAD**0.5
        normed = (norm(size * q) * norm(size * k)).sum(-1) / D_HEAD**0.5
        values[f"without, size {size:g}"] = plain.abs().max().item()
        values[f"with QK-norm, size {size:g}"] = normed.abs().max().item()
    return values


@claim(
    "qk-norm-gain",
    lambda v: (
        "true where the gains are 1 (they are factors of the bound)"
        if v["largest logit"].least > 8.001
        else v["largest logit"].most < 8.001
    ),
)
def with_gain(seed: int) -> Values:
    """Largest logit after QK-norm with a gain of 4 on queries and keys."""
    norm = RMSNorm(D_HEAD).double()
    torch.nn.init.constant_(norm.weight, 4.0)
    q = normal(seed, 500, D_HEAD)
    return {"largest logit": ((norm(q) * norm(q)).sum(-1) / D_HEAD**0.5).max().item()}
