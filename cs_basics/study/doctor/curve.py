"""Checks of the losses that a run has logged."""

import math
import statistics
from collections.abc import Iterator, Sequence

from cs_basics.study.doctor.finding import Finding

LEAST_RISE = 0.1
"""Nats; and 3 %: less than this a validation loss may rise by chance."""
RETRY = "python scripts/train.py PRESET --lr ..."


def overfitting(
    train: Sequence[tuple[int, float]], valid: Sequence[tuple[int, float]]
) -> Iterator[Finding]:
    """See whether the validation loss rises while the training loss goes on falling.

    Args:
        train: Steps and training losses.
        valid: Steps and validation losses.
    """
    valid = [(step, loss) for step, loss in valid if math.isfinite(loss)]
    if len(valid) < 3 or len(train) < 3:
        return
    best, lowest = min(valid, key=lambda point: point[1])
    last = valid[-1][1]
    around = [loss for step, loss in train if step <= best][-5:]
    end = statistics.fmean(loss for _, loss in train[-5:])
    if not around or last < lowest + max(LEAST_RISE, 0.03 * lowest):
        return
    if end < statistics.fmean(around) - LEAST_RISE / 2:
        yield Finding(
            "overfitting",
            f"the validation loss was lowest at step {best}, {lowest:.3f}, and is {last:.3f}; the "
            f"training loss is {end:.3f}",
            "both fall together: the model learns the training text by heart",
            "generate with --checkpoint best; then fewer updates, more text, dropout or decay",
        )


def divergence(train: Sequence[tuple[int, float]]) -> Iterator[Finding]:
    """See whether the training loss ends much higher than it was, or is not finite."""
    for step, loss in train:
        if not math.isfinite(loss):
            yield Finding(
                "not-finite", f"the loss of step {step} is {loss}", "finite losses", RETRY
            )
            return
    if len(train) < 8:
        return
    losses = [loss for _, loss in train]
    size = max(3, len(losses) // 8)
    means = [statistics.fmean(losses[i : i + size]) for i in range(len(losses) - size + 1)]
    lowest, last = min(means), means[-1]
    if last > max(lowest * 1.3, lowest + 0.7) and last > 0.7 * losses[0]:
        yield Finding(
            "rate-too-high",
            f"the loss had come down to {lowest:.3f}, and ends at {last:.3f}",
            "a loss that goes on falling: steps that are too long throw away what was learnt",
            RETRY,
        )
