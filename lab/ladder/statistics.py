"""Whether one set of scores is lower than another: Welch's t-test.

It assumes that the scores of a recipe over its seeds are independent and roughly normal; their
variance may differ from recipe to recipe. With five seeds an exact permutation test has p < 0.01
only where no score of one recipe lies among those of the other (2/252), hence a test that assumes a
distribution. All recipes share their seeds, and so part of their chance; the test ignores this. A
test of pairs does not, and is only reported: the rule was fixed before the runs. (The leaderboard
compares entries of a few seeds each, of any distribution, by the permutation test:
cs_grader/entries/leaderboard.py.)
"""

import math
from collections.abc import Sequence
from statistics import fmean, variance

from cs_basics.study.student_t import quantile_95, two_sided

P = 0.01
"""A difference counts from this two-sided probability down."""


def p_value(one: Sequence[float], other: Sequence[float]) -> float:
    """Return how likely means so far apart are if there is no difference; 1 if unknown."""
    if min(len(one), len(other)) < 2 or not all(map(math.isfinite, [*one, *other])):
        return 1.0
    difference, error, degrees = _welch(one, other)
    if error == 0:
        return 0.0 if difference else 1.0
    return two_sided(abs(difference) / error, degrees)


def p_of_pairs(one: Sequence[float], other: Sequence[float]) -> float:
    """Return p of a t-test of pairs, scores of the same seeds in turn; 1 if it is unknown."""
    if len(one) < 2 or len(one) != len(other) or not all(map(math.isfinite, [*one, *other])):
        return 1.0
    differences = [a - b for a, b in zip(one, other, strict=True)]
    error = math.sqrt(variance(differences) / len(differences))
    if error == 0:
        return 0.0 if differences[0] else 1.0
    return two_sided(abs(fmean(differences)) / error, len(differences) - 1)


def difference_of(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """Return mean minus mean and the half width of its 95 % interval, infinite for one score."""
    if min(len(one), len(other)) < 2:
        return fmean(one) - fmean(other), math.inf
    difference, error, degrees = _welch(one, other)
    if error == 0:
        return difference, 0.0
    return difference, quantile_95(degrees) * error


def _welch(one: Sequence[float], other: Sequence[float]) -> tuple[float, float, float]:
    """Return the difference of the means, its standard error and its degrees of freedom.

    Welch 1947: the error is sqrt(s^2 / n + s'^2 / n'), the degrees of freedom are those of Welch
    and Satterthwaite.
    """
    values = (one, other)
    errors = [variance(part) / len(part) for part in values]
    degrees = math.nan
    if sum(errors):
        degrees = sum(errors) ** 2 / sum(
            error**2 / (len(part) - 1) for error, part in zip(errors, values, strict=True)
        )
    return fmean(one) - fmean(other), math.sqrt(sum(errors)), degrees


def is_lower(one: Sequence[float], other: Sequence[float]) -> bool:
    """Tell whether the first scores are lower, by more than chance explains."""
    return p_value(one, other) < P and fmean(one) < fmean(other)
