"""The clock of a run: progress towards its limits, and what the time went to."""

import contextlib
import math
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass

MEASURED = 3
"""Updates, after the first, whose time says how many fit into a run."""


@dataclass
class Clock:
    """Measures the progress of a run towards its limits of updates and seconds."""

    max_steps: int | None
    max_seconds: float | None
    elapsed_before: float = 0.0
    """Seconds that the run took before it was last resumed."""
    waited_s: float = 0.0
    """Those of them in which no update could be made: preparing, compiling, the first update."""
    agreed_s: float | None = None
    """Elapsed seconds that all processes of the run agreed on; None: read the clock."""

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Start a run now."""
        self._start = self._stage_began = time.monotonic()
        self._stage, self._stages = "starting", dict[str, float]()

    def enter(self, stage: str) -> str:
        """Count the time from now on as that of a stage; return the stage until now."""
        now, left = time.monotonic(), self._stage
        self._stages[left] = self._stages.get(left, 0.0) + now - self._stage_began
        self._stage, self._stage_began = stage, now
        return left

    @contextlib.contextmanager
    def during(self, stage: str) -> Generator[None]:
        """Count the time of a block as that of a stage, not of the stage around it."""
        around = self.enter(stage)
        try:
            yield
        finally:
            self.enter(around)

    @property
    def stages(self) -> dict[str, float]:
        """Seconds of each stage so far; together they are the elapsed seconds."""
        self.enter(self._stage)
        return dict(self._stages)

    def resume(self, elapsed_s: float, waited_s: float, stages: Mapping[str, float]) -> None:
        """Add the time of a run up to the checkpoint from which this process goes on."""
        self.elapsed_before, self.waited_s = elapsed_s, waited_s
        for stage, seconds in stages.items():
            self._stages[stage] = self._stages.get(stage, 0.0) + seconds

    def begin_updates(self) -> None:
        """Leave out of the speed of the run what this process took to its first update."""
        self.waited_s += self.elapsed_s - self.elapsed_before
        self.enter("updates")

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
        by_steps, by_time = self.max_steps or math.inf, math.inf
        if self.max_seconds:
            # The first update is not timed: compiling is part of it.
            num_timed, seconds = max(1, step - 1), max(self.elapsed_s - self.waited_s, 1e-9)
            by_time = step + num_timed * (self.max_seconds - self.elapsed_s) / seconds
        return min(by_steps, by_time)

    def warmup_steps(self, step: int, wanted: int) -> int:
        """Return the updates of the warm-up: those that are wanted, or a tenth of a shorter run."""
        is_measured = self.waited_s and step > 1 + MEASURED
        num_fitting = self.expected_steps(step) if is_measured else self.max_steps or math.inf
        return wanted if wanted < num_fitting else max(1, round(num_fitting / 10))

    def seconds_left(self, step: int, seconds_per_step: float) -> float:
        """Estimate the seconds until the run is over at the given speed."""
        by_steps = (self.max_steps - step) * seconds_per_step if self.max_steps else math.inf
        by_time = self.max_seconds - self.elapsed_s if self.max_seconds else math.inf
        return max(0.0, min(by_steps, by_time))
