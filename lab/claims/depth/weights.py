"""Weights in front of a norm: their size is a learning rate."""

import torch
from torch import Tensor

from cs_basics.norms import RMSNorm
from cs_basics.optim import AdamW
from lab.claims.claim import Values, claim
from lab.claims.draws import largest, normal

D, STEPS = 32, 20


def loss_of(weights: Tensor, x: Tensor, targets: Tensor) -> Tensor:
    """Return the squared error of RMSNorm(x W^T), which does not see the size of W."""
    norm = RMSNorm(D, eps=0.0).double()
    return (norm(x @ weights.T) - targets).square().mean()


def data(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return weights, inputs and targets."""
    return normal(seed, D, D), normal(seed + 1, 64, D), normal(seed + 2, 64, D)


@claim(
    "weights-grow",
    lambda v: (
        v["error of Pythagoras"].most < 1e-12 and v["least growth of |W|^2 in a step"].mean > 0
    ),
)
def growth(seed: int) -> Values:
    """Train by plain SGD: |W|^2 after each step minus |W|^2 + |lr gradient|^2 before it."""
    weights, x, targets = data(seed)
    start, worst, least = weights.norm().item(), 0.0, float("inf")
    for _ in range(STEPS):
        weights = weights.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(loss_of(weights, x, targets), weights)
        step = 100.0 * gradient
        before, after = weights.square().sum(), (weights - step).square().sum()
        worst = max(worst, abs((after - before - step.square().sum()) / before).item())
        least = min(least, (after - before).item())
        weights = weights - step
    return {
        "error of Pythagoras": worst,
        "least growth of |W|^2 in a step": least,
        "|W| after / before": weights.norm().item() / start,
    }


@claim("effective-rate-sgd", lambda v: v["largest difference of losses"].most < 1e-09)
def same_path_sgd(seed: int) -> Values:
    """Difference of the losses during training between W, and 3 W with 9 times the rate."""
    losses: list[Tensor] = []
    weights, x, targets = data(seed)
    for factor in (1.0, 3.0):
        moved, path = factor * weights, list[Tensor]()
        for _ in range(STEPS):
            moved = moved.detach().requires_grad_()
            loss = loss_of(moved, x, targets)
            (gradient,) = torch.autograd.grad(loss, moved)
            moved = moved - 100.0 * factor**2 * gradient
            path.append(loss.detach())
        losses.append(torch.stack(path))
    return {"largest difference of losses": largest(losses[0] - losses[1])}


@claim("effective-rate-adam", lambda v: v["largest difference of losses"].most < 1e-09)
def same_path_adam(seed: int) -> Values:
    """The same for Adam without weight decay: W, and 3 W with 3 times the rate."""
    losses: list[Tensor] = []
    weights, x, targets = data(seed)
    for factor in (1.0, 3.0):
        moved = torch.nn.Parameter(factor * weights)
        optimizer = AdamW([moved], lr=0.01 * factor, eps=0.0, weight_decay=0.0)
        path: list[Tensor] = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = loss_of(moved, x, targets)
            loss.backward()
            optimizer.step()
            path.append(loss.detach())
        losses.append(torch.stack(path))
    return {"largest difference of losses": largest(losses[0] - losses[1])}


@claim("decay-does-not-regularise", lambda v: v["change of the loss"].most < 1e-12)
def decay(seed: int) -> Values:
    """Change of the loss when weight decay alone halves W."""
    weights, x, targets = data(seed)
    change = loss_of(0.5 * weights, x, targets) - loss_of(weights, x, targets)
    return {"change of the loss": largest(change)}
