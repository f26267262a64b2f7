"""Student's t distribution: how far from its mean a mean of few values may lie by chance."""

import math
from functools import cache

NUM_PARTS = 2000
"""Intervals of the integral."""


def two_sided(t: float, degrees: float) -> float:
    """Return the probability that Student's t lies farther from 0 than this.

    With t = sqrt(degrees) tan(angle) its density is that of cos^(degrees - 1), which Simpson's rule
    integrates from 0 to the angle and to pi / 2.
    """
    angle = math.atan(t / math.sqrt(degrees))

    def integral(start: float, end: float) -> float:
        step = (end - start) / NUM_PARTS
        heights = [
            # At pi / 2 rounding may make the cosine a tiny negative number.
            max(0.0, math.cos(start + i * step)) ** (degrees - 1) * (4 if i % 2 else 2)
            for i in range(NUM_PARTS + 1)
        ]
        return (sum(heights) - (heights[0] + heights[-1]) / 2) * step / 3

    beyond = integral(angle, math.pi / 2)
    return beyond / (integral(0, angle) + beyond)


@cache
def quantile_95(degrees: float) -> float:
    """Return the t that chance exceeds, to either side, in one case of 20."""
    low, high = 0.0, 13.0  # With one degree of freedom it is 12.7, with more it is less.
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, degrees) > 0.05 else (low, middle)
    return high
