"""The updates of a run: those of cs_basics/training.py, resumed, in parts and over processes."""

from collections.abc import Callable, Iterable

from torch import Tensor
from torch.optim import Optimizer

from cs_basics.training import Batch, Update, check_finite


def make_updates(
    optimizer: Optimizer,
    batches: Iterable[Batch],
    lr_at: Callable[[int], float],
    loss_of: Callable[[Tensor, Tensor], Tensor],
    clip: Callable[[], float],
    *,
    num_parts: int = 1,
    first_step: int = 1,
    before_part: Callable[[int], None] | None = None,
    on_update: Callable[[Update], None] | None = None,
) -> None:
    """Make one update for each batch.

    Args:
        optimizer: Updates the parameters; its groups may hold an `lr_ratio`, which multiplies
            their rate.
        batches: As in `train`.
        lr_at: As in `train`.
        loss_of: Returns the mean loss of inputs and targets.
        clip: Bounds the gradients and returns their joint norm before.
        num_parts: Equal parts into which a batch is split to save memory; the sum of their
            gradients is that of the batch.
        first_step: Number of the first update; above 1 in a run that is resumed.
        before_part: Called with the number of each part of a batch after the first.
        on_update: As in `train`.

    Raises:
        TrainingDivergedError: A loss or gradient is not finite; that update was not made.
        ValueError: A batch cannot be split into num_parts equal parts.
    """
    for step, (inputs, targets) in enumerate(batches, start=first_step):
        if len(inputs) % num_parts:
            raise ValueError(
                f"a batch of {len(inputs)} rows cannot be cut evenly into "
                f"grad_accum_steps={num_parts} parts"
            )
        optimizer.zero_grad()
        loss = 0.0
        parts = zip(inputs.chunk(num_parts), targets.chunk(num_parts), strict=True)
        for number, part in enumerate(parts):
            if number and before_part is not None:
                before_part(number)
            part_loss = loss_of(*part) / num_parts
            part_loss.backward()
            loss += part_loss.item()
        update = Update(step, loss, clip(), lr_at(step))
        check_finite(update)
        for group in optimizer.param_groups:
            group["lr"] = update.lr * group.get("lr_ratio", 1.0)
        optimizer.step()
        if on_update is not None:
            on_update(update)
