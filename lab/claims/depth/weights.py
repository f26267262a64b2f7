"""Weights in front of a norm: their size is a learning rate."""

import torch
from torch import Tensor

from cs_basics.norms import RMSNorm
from cs_basics.optim import AdamW
from lab.claims.claim import Claim, Values, true_if
from lab.claims.draws import largest, normal
from lab.claims.sources import VAN_LAARHOVEN

D, STEPS = 32, 20


def loss_of(weights: Tensor, x: Tensor, targets: Tensor) -> Tensor:
    """Return the squared error of RMSNorm(x W^T), which does not see the size of W."""
    norm = RMSNorm(D, eps=0.0).double()
    return (norm(x @ weights.T) - targets).square().mean()


def data(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return weights, inputs and targets."""
    return normal(seed, D, D), normal(seed + 1, 64, D), normal(seed + 2, 64, D)


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


def decay(seed: int) -> Values:
    """Change of the loss when weight decay alone halves W."""
    weights, x, targets = data(seed)
    change = loss_of(0.5 * weights, x, targets) - loss_of(weights, x, targets)
    return {"change of the loss": largest(change)}


CLAIMS = [
    Claim(
        name="weights-grow",
        says="Plain gradient descent can only enlarge weights in front of a norm.",
        source=f"{VAN_LAARHOVEN}, on batch and weight normalisation",
        shows=f"{STEPS} steps on a toy: the gradient is at right angles to W, so |W|^2 grows by "
        "|step|^2 (Pythagoras); float64",
        measure=growth,
        verdict=lambda v: true_if(
            v["error of Pythagoras"].most < 1e-12 and v["least growth of |W|^2 in a step"].mean > 0
        ),
    ),
    Claim(
        name="effective-rate-sgd",
        says="The effective learning rate of such weights is lr / |W|^2 (gradient descent).",
        source=VAN_LAARHOVEN,
        shows=f"losses of {STEPS} steps from W and from 3 W with 9 times the rate; float64",
        measure=same_path_sgd,
        verdict=lambda v: true_if(v["largest difference of losses"].most < 1e-9),
    ),
    Claim(
        name="effective-rate-adam",
        says="For Adam it is lr / |W|.",
        source=VAN_LAARHOVEN,
        shows=f"losses of {STEPS} steps from W and 3 W with 3 times the rate, eps = 0; float64",
        measure=same_path_adam,
        verdict=lambda v: true_if(v["largest difference of losses"].most < 1e-9),
    ),
    Claim(
        name="decay-does-not-regularise",
        says="Weight decay does not regularise what a norm follows: it only raises the effective "
        "rate.",
        source=VAN_LAARHOVEN,
        shows="change of the loss when W is halved; float64, eps = 0",
        measure=decay,
        verdict=lambda v: true_if(v["change of the loss"].most < 1e-12),
    ),
]
