"""What is kept of a number that was measured with several seeds."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from cs_basics.study.ablation_summary import quantile_95


@dataclass(frozen=True)
class Spread:
    """Mean, 95 % t interval and extremes of the values of several seeds."""

    mean: float
    half_width: float
    """How far from the mean the true mean may lie; 0: a single value, or no spread."""
    least: float
    most: float

    @property
    def ends(self) -> tuple[float, float]:
        """Lower and upper end of the interval."""
        return self.mean - self.half_width, self.mean + self.half_width

    def __str__(self) -> str:
        """Return the mean to four digits, and the half width of the interval to two."""
        if self.half_width == 0 or not math.isfinite(self.half_width):
            return f"{self.mean:.4g}"
        return f"{self.mean:.4g} \N{PLUS-MINUS SIGN} {self.half_width:.2g}"


def spread_of(values: Sequence[float]) -> Spread:
    """Return what is kept of the values of several seeds, at least one; each to six digits."""
    mean, half_width = statistics.fmean(values), 0.0
    if len(values) > 1:
        quantile = quantile_95(len(values) - 1)
        half_width = quantile * statistics.stdev(values) / math.sqrt(len(values))
    kept = (mean, half_width, min(values), max(values))
    return Spread(*(float(f"{value:.6g}") for value in kept))
