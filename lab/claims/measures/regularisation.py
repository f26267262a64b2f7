"""Does a norm regularise? A toy that can be overfitted, with a norm and without."""

from collections.abc import Callable, Mapping
from statistics import fmean

import torch
from torch import Tensor, nn

from cs_basics.layers import Linear
from cs_basics.optim import AdamW
from lab.claims.measures.draws import normal
from lab.claims.measures.forms import KINDS
from lab.claims.rules import Figures

D_IN, D_HIDDEN, SAMPLES, TESTED = 32, 128, 256, 4_096
NOISE = 0.5
"""Standard deviation of the noise in the targets: its variance is the least error of a test."""
FITTED = NOISE**2 / 2
"""Training error at which both are compared: half of the noise has been learnt by heart."""
MOST_STEPS = 2_000
TOYS = 8
"""Toys of a seed, each with its own samples."""


def error_when_fitted(norm: Callable[..., nn.Module], seed: int) -> float:
    """Train until the training error is FITTED; return the error on samples without noise."""
    torch.manual_seed(seed)
    teacher = normal(4 * seed, D_IN, 4).float()
    x, unseen = (normal(4 * seed + i, n, D_IN).float() for i, n in ((1, SAMPLES), (2, TESTED)))

    def truth(inputs: Tensor) -> Tensor:
        return torch.tanh(inputs @ teacher / D_IN**0.5).sum(-1)

    targets = truth(x) + NOISE * normal(4 * seed + 3, SAMPLES).float()
    hidden = (Linear(D_IN, D_HIDDEN), norm(D_HIDDEN), nn.SiLU(), Linear(D_HIDDEN, 1), nn.Flatten(0))
    network = nn.Sequential(*hidden)
    optimizer = AdamW(network.parameters(), lr=3e-3, weight_decay=0.0)
    loss = (network(x) - targets).square().mean()
    for _ in range(MOST_STEPS):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = (network(x) - targets).square().mean()
        if loss.item() <= FITTED:
            break
    assert loss.item() <= FITTED, "the toy was not fitted"
    with torch.no_grad():
        return (network(unseen) - truth(unseen)).square().mean().item()


def errors(seed: int, *, norms: Mapping[str, str]) -> Figures:
    """Error on unseen samples of several toys, all equally well fitted to the training samples."""
    seeds = range(TOYS * seed, TOYS * (seed + 1))
    return {
        name: fmean(error_when_fitted(KINDS[norm], toy) for toy in seeds)
        for name, norm in norms.items()
    }
