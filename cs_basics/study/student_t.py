"""Student's t distribution: how far from its mean a mean of few values may lie by chance."""

import math
from functools import cache

import numpy as np

MIDDLES = (np.arange(20_000) + 0.5) / 20_000
"""Of the equal parts of the integral's interval, as shares of it."""


def two_sided(t: float, degrees: float) -> float:
    """Return the probability that Student's t lies farther from 0 than this.

    With t = sqrt(degrees) tan(angle) its density is that of cos^(degrees - 1), which is integrated
    from 0 to the angle and to pi / 2.
    """
    angle = math.atan(t / math.sqrt(degrees))
    within, beyond = (
        width * np.mean(np.cos(start + width * MIDDLES) ** (degrees - 1))
        for start, width in ((0.0, angle), (angle, math.pi / 2 - angle))
    )
    return (beyond / (within + beyond)).item()


@cache
def quantile_95(degrees: float) -> float:
    """Return the t that chance exceeds, to either side, in one case of 20."""
    low, high = 0.0, 13.0  # With one degree of freedom it is 12.7, with more it is less.
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, degrees) > 0.05 else (low, middle)
    return high
