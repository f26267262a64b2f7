"""The clock of a run: progress towards its limits."""

import math
import time
from dataclasses import dataclass

MEASURED = 3
"""Updates whose time says how many fit into a run."""


@dataclass
class Clock:
    """Measures the progress of a run towards its limits of updates and seconds."""

    max_steps: int | None
    max_seconds: float | None
    elapsed_before: float = 0.0
    """Seconds that the run took before it was last resumed."""
    agreed_s: float | None = None
    """Elapsed seconds that all processes of the run agreed on; None: read the clock."""

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Start a run now."""
        self._start = time.monotonic()
        self._first: tuple[int, float] | None = None

    def count_from(self, step: int) -> None:
        """Take the updates after this one, which has just been made, for the speed of the run."""
        self._first = step, self.elapsed_s

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run began, without the time between a stop and a resume."""
        return self.read_s() if self.agreed_s is None else self.agreed_s

    def read_s(self) -> float:
        """Return the elapsed seconds by the clock of this process."""
        return self.elapsed_before + time.monotonic() - self._start

    def progress(self, step: int) -> float:
        """Return the finished share of the run; the run is over at 1 or above."""
        by_steps = step / self.max_steps if self.max_steps else 0.0
        by_time = self.elapsed_s / self.max_seconds if self.max_seconds else 0.0
        return max(by_steps, by_time)

    def used(self, step: int) -> str:
        """Say how much of each limit is used up."""
        parts = [f"{step:,} of --max-steps {self.max_steps:,}"] if self.max_steps else []
        if self.max_seconds:
            minutes, most = self.elapsed_s / 60, self.max_seconds / 60
            parts.append(f"{minutes:.1f} of --max-minutes {most:g}")
        return f"{' and '.join(parts)} are used up"

    def expected_steps(self, step: int) -> float:
        """Estimate the number of updates of the whole run from its mean speed so far."""
        by_steps = self.max_steps or math.inf
        by_time = step * self.max_seconds / self.elapsed_s if self.max_seconds else math.inf
        return min(by_steps, by_time)

    def warmup_steps(self, step: int, wanted: int) -> int:
        """Return the updates of the warm-up: those that are wanted, or a tenth of a shorter run."""
        num_fitting = self.max_steps or math.inf
        if self.max_seconds and self._first and step > self._first[0] + MEASURED:
            # The rate of a step is asked for at the end of its update.
            num_made, seconds = step - self._first[0], self.elapsed_s - self._first[1]
            left = num_made * (self.max_seconds - self.elapsed_s) / max(seconds, 1e-9)
            num_fitting = min(num_fitting, step + left)
        return wanted if wanted < num_fitting else max(1, round(num_fitting / 10))

    def seconds_left(self, step: int, seconds_per_step: float) -> float:
        """Estimate the seconds until the run is over at the given speed."""
        by_steps = (self.max_steps - step) * seconds_per_step if self.max_steps else math.inf
        by_time = self.max_seconds - self.elapsed_s if self.max_seconds else math.inf
        return max(0.0, min(by_steps, by_time))
