"""Does a norm regularise? A toy that can be overfitted, with a norm and without."""

from statistics import fmean

import torch
from torch import Tensor, nn

from cs_basics.functional import silu
from cs_basics.layers import Linear
from cs_basics.norms import LayerNorm, RMSNorm
from cs_basics.optim import AdamW
from lab.claims.claim import NOT_SEEN, Intervals, Values, Verdict, claim
from lab.claims.draws import normal

D_IN, D_HIDDEN, SAMPLES, TESTED = 32, 128, 256, 4_096
NOISE = 0.5
"""Standard deviation of the noise in the targets: its variance is the least error of a test."""
FITTED = NOISE**2 / 2
"""Training error at which both are compared: half of the noise has been learnt by heart."""
MOST_STEPS = 2_000
TOYS = 8
"""Toys of a seed, each with its own samples."""
DIFFERENCE = "RMSNorm less no norm"
NORMS = {"no norm": nn.Identity, "RMSNorm": RMSNorm, "LayerNorm": LayerNorm}


class Network(nn.Module):
    """One hidden layer, normalised before its activation."""

    def __init__(self, norm: type[nn.Module]) -> None:
        super().__init__()
        self.first, self.last = Linear(D_IN, D_HIDDEN), Linear(D_HIDDEN, 1)
        self.norm = norm() if norm is nn.Identity else norm(D_HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        """Map (samples, D_IN) to (samples,)."""
        return self.last(silu(self.norm(self.first(x)))).squeeze(-1)


def error_when_fitted(norm: type[nn.Module], seed: int) -> float:
    """Train until the training error is FITTED; return the error on samples without noise."""
    torch.manual_seed(seed)
    teacher = normal(4 * seed, D_IN, 4).float()
    x, unseen = (normal(4 * seed + i, n, D_IN).float() for i, n in ((1, SAMPLES), (2, TESTED)))

    def truth(inputs: Tensor) -> Tensor:
        return torch.tanh(inputs @ teacher / D_IN**0.5).sum(-1)

    targets = truth(x) + NOISE * normal(4 * seed + 3, SAMPLES).float()
    network = Network(norm)
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


def judge(values: Intervals) -> Verdict:
    """Judge "the norm regularises"."""
    found = values[DIFFERENCE]
    return found.is_below(0) or (False if found.is_above(0) else NOT_SEEN)


@claim("regularises", judge)
def errors(seed: int) -> Values:
    """Error on unseen samples, each network as well fitted to the training samples."""
    seeds = range(TOYS * seed, TOYS * (seed + 1))
    found = {name: fmean(error_when_fitted(norm, s) for s in seeds) for name, norm in NORMS.items()}
    return found | {DIFFERENCE: found["RMSNorm"] - found["no norm"]}
