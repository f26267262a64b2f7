"""The training loop: batch, loss, backward, clip, schedule, step.

Last in the reading order. What differs from run to run is passed in: `batches` decides when the
training ends, `lr_at` sets the learning rate of each step, and `on_update` can log and save.
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
    """Training has come to a number that is not finite."""


def train(
    model: nn.Module,
    optimizer: Optimizer,
    batches: Iterable[Batch],
    lr_at: Callable[[int], float],
    *,
    loss_of: Callable[[Tensor, Tensor], Tensor] | None = None,
    clip: Callable[[], float] | None = None,
    max_grad_norm: float = 1.0,
    grad_accum_steps: int = 1,
    first_step: int = 1,
    on_update: Callable[[Update], None] | None = None,
) -> None:
    """Make one update for each batch.

    Args:
        model: The language model.
        optimizer: Its parameter groups may hold an `lr_ratio`, which multiplies their rate.
        batches: One for each update; the training ends when there are no more.
        lr_at: The learning rate of step 1, 2, 3, ... If it is `cosine_schedule` with min_lr=0, make
            cycle_steps one more than the number of updates, or the last update has rate 0.
        loss_of: Mean loss of inputs and targets; None: the cross-entropy of the model's logits.
        clip: Bounds the gradients and returns their norm; None: `clip_grad_norm`.
        max_grad_norm: The norm to which `clip_grad_norm` clips; unused if `clip` is given.
        grad_accum_steps: Equal parts into which a batch is split to save memory; the sum of their
            gradients is that of the batch.
        first_step: Number of the first update; above 1 in a run that is resumed.
        on_update: Called after each update.

    Raises:
        TrainingDivergedError: A loss or gradient is not finite; that update was not made.
        ValueError: A batch cannot be split into grad_accum_steps equal parts.
    """

    def plain_loss_of(inputs: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(model(inputs), targets)

    loss_of = loss_of or plain_loss_of
    clip = clip or (lambda: float(clip_grad_norm(model.parameters(), max_grad_norm)))
    for step, (inputs, targets) in enumerate(batches, start=first_step):
        if len(inputs) % grad_accum_steps:
            raise ValueError(
                f"a batch of {len(inputs)} rows cannot be cut evenly into "
                f"grad_accum_steps={grad_accum_steps} parts"
            )
        model.zero_grad()
        loss = 0.0
        for part in zip(
            inputs.chunk(grad_accum_steps), targets.chunk(grad_accum_steps), strict=True
        ):
            part_loss = loss_of(*part) / grad_accum_steps
            part_loss.backward()
            loss += part_loss.item()
        grad_norm = clip()
        if not math.isfinite(loss + grad_norm):
            raise TrainingDivergedError(
                f"step {step}: loss {loss:g}, gradient norm {grad_norm:g}; the update was not made"
            )
        lr = lr_at(step)
        for group in optimizer.param_groups:
            group["lr"] = lr * group.get("lr_ratio", 1.0)
        optimizer.step()
        if on_update is not None:
            on_update(Update(step, loss, grad_norm, lr))
