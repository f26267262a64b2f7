"""Checks of the losses that a run has logged."""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean

from cs_basics.study.doctor.finding import Finding, Findings

LEAST_RISE = 0.1
"""Nats; and 3 %: less than this a validation loss may rise by chance."""
LEAST_POINTS = 10
LEAST_STEPS = 400
"""Updates; a good run, too, needs some to get below the entropy of single tokens."""
LEAST_SHARE = 0.04
"""Of the entropy of a token after the one before, that a model of any text leaves."""
MOST_REPEATED = 0.4
Points = Sequence[tuple[int, float]]
"""Steps and losses."""
RETRY = "a lower learning rate (scripts/train.py PRESET --lr ...), or more warm-up"


def overfitting(train: Points, valid: Points) -> Findings:
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
    end = fmean(loss for _, loss in train[-5:])
    if not around or last < lowest + max(LEAST_RISE, 0.03 * lowest):
        return
    if end < fmean(around) - LEAST_RISE / 2:
        yield Finding(
            "overfitting",
            f"the validation loss was lowest at step {best}, {lowest:.3f}, and is {last:.3f}; the "
            f"training loss is {end:.3f}",
            "both fall together; if only the training loss falls, its text is learnt by heart",
            "take the checkpoint of that step; then fewer updates, more text, dropout or decay",
        )


def plateau(train: Points, single: float, after_one: float) -> Findings:
    """See whether the loss stays where a model that counts tokens, or pairs of them, would be.

    Args:
        train: Steps and training losses.
        single: Entropy of single tokens, in nats.
        after_one: Entropy of a token after the one before, in nats.
    """
    size = len(train) // 4
    if size < LEAST_POINTS or train[-1][0] < LEAST_STEPS:
        return
    before, last = (
        fmean(loss for _, loss in part) for part in (train[-2 * size : -size], train[-size:])
    )
    learnt = "how often each token comes" if last > 0.97 * single else "which token follows which"
    near = min((single, after_one), key=lambda entropy: abs(last - entropy))
    if last > 0.99 * before and abs(last - near) < 0.03 * near:
        yield Finding(
            "context-unused",
            f"the loss stays at {last:.3f}: the model has learned {learnt}, and nothing else",
            f"less than {near:.3f}, the entropy that counting alone reaches",
            "python scripts/doctor.py PRESET  # which looks at what a position sees",
        )


def too_good(valid: Points, after_one: float) -> Findings:
    """See whether the validation loss is less than any model of the text can reach.

    Args:
        valid: Steps and validation losses.
        after_one: Entropy of a token after the one before, in nats.
    """
    if valid and valid[-1][1] < LEAST_SHARE * after_one:
        yield Finding(
            "future-leak",
            f"the validation loss is {valid[-1][1]:.2g}; counting pairs leaves {after_one:.2g}",
            f"more than {LEAST_SHARE:.0%} of that: nobody foresees a text that well",
            "python scripts/doctor.py PRESET  # which looks at what a position sees",
        )


def looped(samples: Sequence[tuple[int, str]]) -> Findings:
    """See whether the latest sample says the same again and again.

    Args:
        samples: Steps and texts.
    """
    step, text = [(0, ""), *samples][-1]
    share = repetition([text.split()])
    if share > MOST_REPEATED:
        yield Finding(
            "generation",
            f"{share:.0%} of the four-word runs in the sample of step {step} are repeats",
            f"less than {MOST_REPEATED:.0%}, as in a text that goes on",
            "python scripts/generate.py RUN --temperature 1  # always the likeliest word: a loop",
        )


def repetition(rows: Iterable[Sequence[object]]) -> float:
    """Return the share of four tokens, or words, in turn that have stood in the same row before."""
    fours = [list(zip(*(row[i:] for i in range(4)), strict=False)) for row in rows]
    return sum(len(row) - len(set(row)) for row in fours) / max(1, sum(map(len, fours)))


def divergence(train: Points) -> Findings:
    """See whether the training loss ends much higher than it was, or is not finite."""
    for step, loss in train:
        if not math.isfinite(loss):
            yield Finding(
                "not-finite", f"the loss of step {step} is {loss}", "finite losses", RETRY
            )
            return
    losses = [loss for _, loss in train] or [0.0]
    lowest, last = losses[0], losses[-1]
    is_lost = last > 2 * lowest + 2
    if len(losses) >= 8:
        size = max(3, len(losses) // 8)
        means = [fmean(losses[i : i + size]) for i in range(len(losses) - size + 1)]
        lowest, last = min(means), means[-1]
        is_lost = last > max(lowest * 1.3, lowest + 0.7) and last > 0.7 * losses[0]
    if is_lost:
        yield Finding(
            "rate-too-high",
            f"the loss was {lowest:.3f}, and ends at {last:.3f}",
            "a loss that goes on falling: steps that are too long throw away what was learnt",
            RETRY,
        )
