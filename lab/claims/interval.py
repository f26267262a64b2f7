"""Mean and 95 % t interval of a number that was measured with several seeds."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from cs_basics.study.student_t import quantile_95


@dataclass(frozen=True)
class Interval:
    """A mean, and how far from it the true mean may lie (0: a single value, or no spread)."""

    mean: float
    half_width: float

    @property
    def ends(self) -> tuple[float, float]:
        """Lower and upper end."""
        return self.mean - self.half_width, self.mean + self.half_width

    def __str__(self) -> str:
        """Return the mean to four digits, and the half width of the interval to two."""
        if self.half_width == 0 or not math.isfinite(self.half_width):
            return f"{self.mean:.4g}"
        return f"{self.mean:.4g} \N{PLUS-MINUS SIGN} {self.half_width:.2g}"


def interval_of(values: Sequence[float]) -> Interval:
    """Return mean and interval of the values of several seeds, at least one."""
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Interval(mean, 0.0)
    half_width = quantile_95(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, half_width)
