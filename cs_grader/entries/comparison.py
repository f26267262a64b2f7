"""Is the validation text easier for a model than text that it cannot have seen?

Texts are compared story by story, since the words of a story are not independent of each other. A
difference counts if it is above a limit, so that cheating would pay, and above six standard errors,
so that it is not chance. docs/running.md has what was measured on honest runs.
"""

import math

import numpy as np

from cs_grader.entries.evaluation import Floats, Reading, stories_of
from cs_grader.entries.refusal import NotJudgedError, RefusedError

MAX_GAIN_BY_ORDER = 0.01
MAX_GAIN_ON_FRESH = 0.03
STANDARD_ERRORS = 6.0
MIN_STORIES = 20


def no_easier_in_order(plain: Reading, shuffled: Reading, order: list[int]) -> str:
    """Compare stories with the same stories in another order, each with itself.

    Args:
        plain: A text.
        shuffled: Its first stories in another order.
        order: Which story stands at each place of `shuffled`.

    Raises:
        NotJudgedError: There are too few stories.
        RefusedError: The model knows the order of the validation text.
    """
    _need_stories(len(order))
    gains = np.empty(len(order))
    gains[order] = shuffled.bits_of_stories
    gains -= plain.bits_of_stories[: len(order)]
    gain, error = _mean(gains, len(shuffled.text))
    said = f"{gain:+.4f} bits per byte with its stories in another order"
    if gain > max(MAX_GAIN_BY_ORDER, STANDARD_ERRORS * error):
        raise RefusedError(f"{said}: {gain / error:.0f} standard errors")
    return said


def no_easier_than_fresh(valid: Reading, fresh: list[Reading], count: int) -> str:
    """Compare the first stories of the validation text with fresh ones.

    Args:
        valid: The validation text.
        fresh: Fresh text; empty: there is none.
        count: How many stories of each.

    Raises:
        NotJudgedError: There are too few stories.
        RefusedError: The validation text is easier.
    """
    if not fresh:
        raise NotJudgedError("there is no fresh text: give some by --fresh-text")
    means: list[float] = []
    errors: list[float] = []
    for reading in (valid, *fresh):
        sizes = np.array([len(story) for story in stories_of(reading.text)][:count])
        _need_stories(len(sizes))
        bits = reading.bits_of_stories[: len(sizes)]
        means.append(float(bits.sum() / sizes.sum()))
        # The standard error of a ratio of two sums over stories.
        errors.append(_mean(bits - means[-1] * sizes, int(sizes.sum()))[1])
    gain, error = means[1] - means[0], math.hypot(*errors)
    said = f"{means[1]:.4f} bits per byte on fresh text, {means[0]:.4f} on the validation text"
    if gain > max(MAX_GAIN_ON_FRESH, STANDARD_ERRORS * error):
        raise RefusedError(f"{said}: {gain / error:.0f} standard errors")
    return said


def _need_stories(count: int) -> None:
    if count < MIN_STORIES:
        raise NotJudgedError(f"a text has {count} stories, {MIN_STORIES} are needed")


def _mean(bits: Floats, num_bytes: int) -> tuple[float, float]:
    """Return the bits of all stories per byte of the text, and the standard error of that."""
    return float(bits.sum()) / num_bytes, float(bits.std() * len(bits) ** 0.5) / num_bytes
