"""Weights in front of a norm: their size is a learning rate."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from cs_basics.optim import AdamW
from lab.claims.measures.draws import largest, normal
from lab.claims.measures.forms import form
from lab.claims.rules import Figures

D, STEPS = 32, 20
Loss = Callable[[Tensor], Tensor]


def toy(seed: int, norm: str) -> tuple[Tensor, Loss]:
    """Return weights W, and the squared error of norm(x W^T) as a function of them."""
    x, targets = normal(seed + 1, 64, D), normal(seed + 2, 64, D)
    gain, function = torch.ones(D, dtype=torch.float64), form(norm)

    def loss(weights: Tensor) -> Tensor:
        return (function(x @ weights.T, gain, 0.0) - targets).square().mean()

    return normal(seed, D, D), loss


def path(
    start: Tensor, loss_of: Loss, rates: Sequence[float], *, kept: float = 1.0, adam: bool = False
) -> tuple[Tensor, Tensor]:
    """Return losses and weights before each update with these rates.

    Args:
        start: Weights.
        loss_of: What is lowered.
        rates: Learning rates.
        kept: What decay leaves of the weights in a step of gradient descent.
        adam: Adam instead, without decay.
    """
    weights, losses, seen = nn.Parameter(start.clone()), list[Tensor](), list[Tensor]()
    optimizer = AdamW([weights], lr=rates[0], eps=0.0, weight_decay=0.0)
    for rate in rates:
        seen.append(weights.detach().clone())
        loss = loss_of(weights)
        (weights.grad,) = torch.autograd.grad(loss, weights)
        losses.append(loss.detach())
        if adam:
            optimizer.step()
        else:
            weights.data = kept * weights.data - rate * weights.grad
    return torch.stack(losses), torch.stack(seen)


def growth(seed: int, *, norm: str) -> Figures:
    """Train by plain SGD: |W|^2 after each step minus |W|^2 + |lr gradient|^2 before it."""
    _, weights = path(*toy(seed, norm), (STEPS + 1) * [100.0])
    sizes, steps = (w.square().sum((1, 2)) for w in (weights, weights.diff(dim=0)))
    return {
        "error": largest((sizes.diff() - steps) / sizes[:-1]),
        "least_growth": sizes.diff().min().item(),
        "grown": (sizes[-1] / sizes[0]).sqrt().item(),
    }


def same_path(
    seed: int,
    *,
    norm: str,
    other: str,
    one: str = "100",
    scale: float = 1.0,
    kept: float = 1.0,
    adam: bool = False,
) -> Figures:
    """Losses of a training from W, and of one from a multiple of W with other rates.

    Args:
        seed: Decides W and data.
        norm: Of the toy.
        other: The other's rates, an expression over the step t = 0, 1, ...
        one: Rates of the first.
        scale: How many times W the other starts from.
        kept: What decay leaves of the first's weights in a step.
        adam: Both by Adam.
    """
    start, loss_of = toy(seed, norm)
    rates, others = ([eval(text, {"t": t}) for t in range(STEPS)] for text in (one, other))
    losses, _ = path(start, loss_of, rates, kept=kept, adam=adam)
    same, _ = path(scale * start, loss_of, others, adam=adam)
    return {"difference": largest(losses - same)}
