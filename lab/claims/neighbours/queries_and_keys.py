"""RMSNorm of queries and keys."""

import torch

from cs_basics.norms import RMSNorm
from lab.claims.claim import Claim, Values, true_if
from lab.claims.draws import normal
from lab.claims.sources import HENRY

D_HEAD, SIZES = 64, (1.0, 10.0, 100.0)


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


def with_gain(seed: int) -> Values:
    """Largest logit after QK-norm with a gain of 4 on queries and keys."""
    norm = RMSNorm(D_HEAD).double()
    torch.nn.init.constant_(norm.weight, 4.0)
    q = normal(seed, 500, D_HEAD)
    return {"largest logit": ((norm(q) * norm(q)).sum(-1) / D_HEAD**0.5).max().item()}


CLAIMS = [
    Claim(
        name="qk-norm-bounds",
        says="QK-norm bounds the attention logits, however large queries and keys become.",
        source=f"{HENRY}, sec. 2.3 (with the l2 norm)",
        shows="largest logit of 500 pairs, d_head = 64, gain 1; bound: sqrt(64) = 8",
        measure=largest_logit,
        verdict=lambda v: true_if(
            v["with QK-norm, size 100"].most < 8.001 and v["without, size 100"].least > 1e4
        ),
        shown=(
            "without, size 1",
            "without, size 100",
            "with QK-norm, size 1",
            "with QK-norm, size 100",
        ),
    ),
    Claim(
        name="qk-norm-gain",
        says="After QK-norm logits lie within sqrt(d_head).",
        source="circulates",
        shows="largest logit with a learned gain of 4 on both sides, d_head = 64; sqrt(64) = 8",
        measure=with_gain,
        verdict=lambda v: (
            "true where the gains are 1 (they are factors of the bound)"
            if v["largest logit"].least > 8.001
            else true_if(v["largest logit"].most < 8.001)
        ),
    ),
]
