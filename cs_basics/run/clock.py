"""How long a run still has, and how fast it goes."""

import math
import time
from dataclasses import dataclass


@dataclass
class Clock:
    """How far along a run is: by its updates, by the time, or by whichever runs out first."""

    max_steps: int | None
    max_seconds: float | None
    elapsed_before: float = 0.0
    """Seconds spent before the run was resumed."""
    agreed_s: float | None = None
    """The time that all processes of a run agreed on, which then counts; None: the clock's."""

    def __post_init__(self) -> None:
        self._start = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run began, pauses left out."""
        return self.read_s() if self.agreed_s is None else self.agreed_s

    def read_s(self) -> float:
        """Return what the clock of this process says."""
        return self.elapsed_before + time.monotonic() - self._start

    def progress(self, step: int) -> float:
        """Return the share of the run that is done; from 1 on it is over."""
        by_steps = step / self.max_steps if self.max_steps else 0.0
        by_time = self.elapsed_s / self.max_seconds if self.max_seconds else 0.0
        return max(by_steps, by_time)

    def expected_steps(self, step: int) -> float:
        """Return the number of updates the whole run will have, if it goes on at its mean speed."""
        by_steps = self.max_steps or math.inf
        by_time = step * self.max_seconds / self.elapsed_s if self.max_seconds else math.inf
        return min(by_steps, by_time)

    def seconds_left(self, step: int, seconds_per_step: float) -> float:
        """Return the time until the run is over, at the given speed."""
        by_steps = (self.max_steps - step) * seconds_per_step if self.max_steps else math.inf
        by_time = self.max_seconds - self.elapsed_s if self.max_seconds else math.inf
        return max(0.0, min(by_steps, by_time))


class Speed:
    """The time that updates take, with the pauses between them left out."""

    def __init__(self) -> None:
        self._num_steps = 0
        self._elapsed_s = 0.0
        self.restart()

    def restart(self) -> None:
        """Leave out the time since the last update."""
        self._last = time.monotonic()

    def count_step(self) -> None:
        """Count one update."""
        now = time.monotonic()
        self._elapsed_s += now - self._last
        self._last = now
        self._num_steps += 1

    def seconds_per_step(self) -> float:
        """Return the mean since this was last asked."""
        mean = self._elapsed_s / self._num_steps
        self._num_steps, self._elapsed_s = 0, 0.0
        return mean
