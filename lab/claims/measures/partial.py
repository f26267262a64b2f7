"""Partial RMSNorm's estimate, and the bound of QK-norm."""

import torch
from torch import nn

from cs_basics.variants.norms import PartialRMSNorm
from lab.claims.measures.draws import normal
from lab.claims.measures.forms import KINDS
from lab.claims.rules import Figures

D = 512


def estimate(seed: int, *, alike: float = 0.0) -> Figures:
    """Bias and spread of the partial RMS, relative to the RMS, over 20,000 vectors.

    Args:
        seed: Decides the vectors.
        alike: Share of every coordinate that all of the first sixteenth have in common.
    """
    norm, x = PartialRMSNorm(D), normal(seed, 20_000, D)
    measured = x[:, : norm.num_measured]
    measured += alike * x[:, -1:]
    whole, part = x.square().mean(-1), measured.square().mean(-1)
    ratio = (part / whole).sqrt()
    return {
        "square_bias_percent": 100 * ((part.mean() / whole.mean()).item() - 1),
        "bias_percent": 100 * (ratio.mean().item() - 1),
        "spread": ratio.std().item(),
        "expected": 1 / (2 * norm.num_measured) ** 0.5,
    }


@torch.no_grad()
def logits(seed: int, *, size: float, gain: float = 1.0, normed: bool = True) -> Figures:
    """Largest attention logit |q k| / sqrt(64) of 500 pairs, one query being its own key."""
    norm = KINDS["RMSNorm"](64).double() if normed else nn.Identity()
    for weight in norm.parameters():
        nn.init.constant_(weight, gain)
    q, k = size * normal(seed, 500, 64), size * normal(seed + 1, 500, 64)
    k[0] = q[0]
    plain, found = ((f(q) * f(k)).sum(-1).abs().max().item() / 8 for f in (nn.Identity(), norm))
    return {"without": plain, "with_norm": found}
