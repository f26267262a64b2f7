"""Weights in front of a norm: their size is a learning rate."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cs_basics.optim import AdamW
from lab.claims.measures.draws import largest, normal
from lab.claims.measures.forms import FORMS
from lab.claims.rules import Figures

D, STEPS = 32, 20
Loss = Callable[[Tensor], Tensor]


def toy(seed: int, norm: str) -> tuple[Tensor, Loss]:
    """Return weights W, and the squared error of norm(x W^T) as a function of them."""
    x, targets, gain = normal(seed + 1, 64, D), normal(seed + 2, 64, D), normal(0, D) * 0 + 1

    def loss(weights: Tensor) -> Tensor:
        return (FORMS[norm](x @ weights.T, gain, 0.0) - targets).square().mean()

    return normal(seed, D, D), loss


def growth(seed: int, *, norm: str) -> Figures:
    """Train by plain SGD: |W|^2 after each step minus |W|^2 + |lr gradient|^2 before it."""
    weights, loss_of = toy(seed, norm)
    start, worst, least = weights.norm().item(), 0.0, float("inf")
    for _ in range(STEPS):
        weights = weights.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(loss_of(weights), weights)
        step = 100.0 * gradient
        before, after = weights.square().sum(), (weights - step).square().sum()
        worst = max(worst, abs((after - before - step.square().sum()) / before).item())
        least = min(least, (after - before).item())
        weights = weights - step
    return {"error": worst, "least_growth": least, "grown": weights.norm().item() / start}


def path(start: Tensor, loss_of: Loss, rates: Sequence[float], kept: float, adam: bool) -> Tensor:
    """Return the losses of updates with these rates; `kept` of the weights is left by decay."""
    weights, losses = torch.nn.Parameter(start.clone()), list[Tensor]()
    optimizer = AdamW([weights], lr=rates[0], eps=0.0, weight_decay=0.0)
    for rate in rates:
        optimizer.zero_grad()
        loss = loss_of(weights)
        loss.backward()
        assert weights.grad is not None
        if adam:
            optimizer.step()
        else:
            weights.data = kept * weights.data - rate * weights.grad
        losses.append(loss.detach())
    return torch.stack(losses)


def same_path(seed: int, *, norm: str, adam: bool, rate: float) -> Figures:
    """Losses of a training from W, and of one from 3 W with a multiple of the rate."""
    start, loss_of = toy(seed, norm)
    rates = STEPS * [0.01 if adam else 100.0]
    one = path(start, loss_of, rates, 1.0, adam)
    other = path(3 * start, loss_of, [rate * each for each in rates], 1.0, adam)
    return {"difference": largest(one - other)}


def decayed_path(seed: int, *, norm: str, raised: bool = True) -> Figures:
    """Losses of gradient descent with decay, and of one without it whose rate rises instead.

    Decay to a share c in each step is the same as a rate of lr / c^(2 t + 1) at step t = 0, 1, ...,
    if the loss does not see the size of W.

    Args:
        seed: Decides weights and data.
        norm: A key of FORMS.
        raised: Whether the rate rises.
    """
    start, loss_of = toy(seed, norm)
    rates = [100.0 / (0.97 ** (2 * step + 1) if raised else 1) for step in range(STEPS)]
    decayed = path(start, loss_of, STEPS * [100.0], 0.97, adam=False)
    return {"difference": largest(decayed - path(start, loss_of, rates, 1.0, adam=False))}
