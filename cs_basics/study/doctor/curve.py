"""Checks of the losses that a run has logged."""

import math
from collections.abc import Iterator, Sequence
from statistics import fmean

import numpy as np

from cs_basics.study.doctor.report import Finding, Findings

LEAST_RISE, LEAST_SHARE_RISEN = 0.1, 0.03
"""Nats, and share: less than both together a validation loss may rise by chance."""
FULL, PART = 3, 8
"""Losses that are averaged: one in PART of the run, FULL at least."""
LOST = 1.3, 0.7
"""Times, and nats more than, the lowest mean: what a loss may end at. Healthy runs end at 1.05."""
LEAST_SHARE = 0.04
"""Of the entropy of a token after the one before, that a model of any text leaves."""
TENTH = 0.1
"""By which a loss that learns falls: of the way to the entropy of single tokens, and below it."""
Points = Sequence[tuple[int, float]]
"""Steps and losses."""


def of_curve(train: Points, valid: Points, after_one: float) -> Findings:
    """Say what the losses of a run tell.

    Args:
        train: Steps and training losses.
        valid: Steps and validation losses.
        after_one: Entropy of a token of the text after the one before, in nats; 0: not known.
    """
    yield from divergence(train)
    yield from overfitting(train, valid)
    if valid and valid[-1][1] < LEAST_SHARE * after_one:
        seen = f"the validation loss is {valid[-1][1]:.2g}; counting pairs of tokens leaves "
        yield Finding("future-leak", f"{seen}{after_one:.2g}, and nobody foresees a text that well")


def unlearnt(train: Points, single: float) -> Iterator[str]:
    """Say why a run, whatever else was found, cannot be called healthy."""
    losses = [loss for _, loss in train]
    if len(losses) < 2:
        yield "whether it learns: fewer than two losses are known"
        return
    means = _means(losses)
    first, last = losses[0], fmean(losses[-max(1, len(losses) // PART) :])
    counting = f"; counting how often each token comes gives {single:.3f}" * bool(single)
    told = f"the loss began at {first:.3f} and ends at {last:.3f}"
    if not first - last > TENTH * (first - single):
        yield f"whether it learns: {told}{counting}"
    elif last > (1 - TENTH) * single > 0:
        yield f"whether it learns more than frequencies: {told}{counting}"
    elif last > (1 + TENTH) * min(means):
        yield f"whether it goes on learning: {told}, and was {min(means):.3f}"
    elif max(means) > (1 + TENTH) * first:
        yield f"whether its rate is right: {told}, and was {max(means):.3f}"


def overfitting(train: Points, valid: Points) -> Findings:
    """See whether the validation loss rises while the training loss goes on falling."""
    valid = [(step, loss) for step, loss in valid if math.isfinite(loss)]
    if len(valid) < FULL or len(train) < FULL:
        return
    best, lowest = min(valid, key=lambda point: point[1])
    last = valid[-1][1]
    around = [loss for step, loss in train if step <= best][-5:]
    end = fmean(loss for _, loss in train[-5:])
    if not around or last < lowest + max(LEAST_RISE, LEAST_SHARE_RISEN * lowest):
        return
    if end < fmean(around) - LEAST_RISE / 2:
        seen = f"the validation loss was lowest at step {best}, {lowest:.3f}, and is {last:.3f}; "
        yield Finding("overfitting", f"{seen}the training loss is {end:.3f}")


def divergence(train: Points) -> Findings:
    """See whether the training loss ends much higher than it was, or is not finite."""
    for step, loss in train:
        if not math.isfinite(loss):
            yield Finding("not-finite", f"the loss of step {step} is {loss}")
            return
    losses = [loss for _, loss in train] or [0.0]
    lowest, last = losses[0], losses[-1]
    is_lost = last > 2 * lowest + 2
    if len(losses) >= PART:
        means = _means(losses)
        lowest, last = min(means), means[-1]
        is_lost = last > max(LOST[0] * lowest, LOST[1] + lowest) and last > LOST[1] * losses[0]
    if is_lost:
        yield Finding("rate-too-high", f"the loss was {lowest:.3f}, and ends at {last:.3f}")


def _means(losses: Sequence[float]) -> list[float]:
    """Return the means of the losses in a window that moves over them."""
    size = min(len(losses), max(FULL, len(losses) // PART))
    sums = np.cumsum([0.0, *losses])
    return ((sums[size:] - sums[:-size]) / size).tolist()
