"""Mean and 95 % t interval of a number that was measured with several seeds.

Claims that hold by construction are judged by the worst seed (least, most), claims in which chance
plays a part by the interval (low, high).
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from cs_basics.study.student_t import quantile_95


@dataclass(frozen=True)
class Interval:
    """A mean, how far from it the true mean may lie, and the least and the largest value."""

    mean: float
    half_width: float
    """0 for a single value, whose spread is unknown."""
    least: float
    most: float

    @property
    def low(self) -> float:
        """Lower end."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """Upper end."""
        return self.mean + self.half_width

    def is_above(self, limit: float) -> bool:
        """Tell whether the whole interval lies above a limit."""
        return self.low > limit

    def is_below(self, limit: float) -> bool:
        """Tell whether the whole interval lies below a limit."""
        return self.high < limit

    def __str__(self) -> str:
        """Return the mean to four digits, and the half width of the interval to two."""
        if self.half_width == 0 or not math.isfinite(self.half_width):
            return f"{self.mean:.4g}"
        return f"{self.mean:.4g} \N{PLUS-MINUS SIGN} {self.half_width:.2g}"


def interval_of(values: Sequence[float]) -> Interval:
    """Return mean and interval of the values of several seeds, at least one."""
    mean = statistics.fmean(values)
    if len(values) == 1 or not math.isfinite(mean):
        return Interval(mean, 0.0, min(values), max(values))
    half_width = quantile_95(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, half_width, min(values), max(values))
