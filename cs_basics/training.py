"""The training loop: batch, loss, backward, clip, schedule, step.

What differs from run to run is passed in, as __main__.py shows: `batches` yields one result of
`get_batch` (data.py) for each update, `lr_at` usually calls `cosine_schedule` (optim.py), and
`on_update` can log, and save with checkpoint.py.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor, nn
from torch.optim import Optimizer

from cs_basics.functional import cross_entropy
from cs_basics.optim import clip_grad_norm

Batch = tuple[Tensor, Tensor]
"""Inputs and targets, token ids of shape (batch, seq)."""


@dataclass(frozen=True, slots=True)
class Update:
    """A record of one update of the weights."""

    step: int
    """Number of the update: 1, 2, 3, ..."""
    loss: float
    """Mean loss of its batch before the update, in nats."""
    grad_norm: float
    """Joint norm of the gradients before clipping."""
    lr: float
    """Learning rate of the update."""


class TrainingDivergedError(ValueError):
    """A loss or a gradient was not finite."""


def train(
    model: nn.Module,
    optimizer: Optimizer,
    batches: Iterable[Batch],
    lr_at: Callable[[int], float],
    *,
    max_grad_norm: float = 1.0,
    on_update: Callable[[Update], None] | None = None,
) -> None:
    """Make one update for each batch.

    Args:
        model: The language model.
        optimizer: Updates its parameters.
        batches: One for each update; the training ends when there are no more.
        lr_at: The learning rate of step 1, 2, 3, ..., for all parameter groups.
        max_grad_norm: The norm to which gradients are clipped.
        on_update: Called after each update.

    Raises:
        TrainingDivergedError: A loss or gradient is not finite; that update was not made.
        ValueError: max_grad_norm is not greater than 0, or the model refuses a batch.
    """
    for step, (inputs, targets) in enumerate(batches, start=1):
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs), targets)
        loss.backward()
        grad_norm = clip_grad_norm(model.parameters(), max_grad_norm)
        update = Update(step, loss.item(), grad_norm.item(), lr_at(step))
        check_finite(update)
        for group in optimizer.param_groups:
            group["lr"] = update.lr
        optimizer.step()
        if on_update is not None:
            on_update(update)


def check_finite(update: Update) -> None:
    """Raise TrainingDivergedError if the loss or the gradient of an update is not finite."""
    if not math.isfinite(update.loss + update.grad_norm):
        raise TrainingDivergedError(
            f"step {update.step}: loss {update.loss:g}, gradient norm {update.grad_norm:g}; "
            "the update was not made"
        )
