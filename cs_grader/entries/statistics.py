"""How sure it is that one entry is better than another: a permutation test over their seeds."""

from collections.abc import Sequence
from itertools import combinations
from math import comb

MAX_RUNS = 12


def p_value(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return how often chance alone makes the mean of ours lower by at least as much.

    The exact one-sided permutation test for the difference of means (Fisher 1935; Good 2005, sec.
    3.2): if both were the same, every division of the figures into two groups would be equally
    likely. With five figures each the least p is 1/252, with three 1/20, with one 1/2.

    Raises:
        ValueError: There are no figures, or too many to go through all divisions.
    """
    if not 1 <= len(ours) <= MAX_RUNS or not 1 <= len(theirs) <= MAX_RUNS:
        raise ValueError(f"{len(ours)} and {len(theirs)} figures: use 1 to {MAX_RUNS} of each")
    pooled = [*ours, *theirs]
    # With the sizes fixed, the difference of means grows with the sum of the first group.
    least = sum(ours) + 1e-12 * max(map(abs, pooled))
    as_low = sum(sum(group) <= least for group in combinations(pooled, len(ours)))
    return as_low / comb(len(pooled), len(ours))
