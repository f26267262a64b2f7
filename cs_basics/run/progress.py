"""Progress of long work, reported by the library to callbacks and shown by the scripts."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a stage of work, the argument of `on_progress` callbacks."""

    stage: str
    """Name of the stage, such as "counting pre-tokens"."""
    unit: str
    """Unit of `done` and `total`, such as "bytes"."""
    done: int
    """Units finished in this stage."""
    total: int
    """Units of the whole stage; 0 if unknown, as for a pipe."""
    elapsed_s: float
    """Seconds since the stage began."""

    @property
    def rate(self) -> float:
        """Units per second so far."""
        return self.done / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def remaining_s(self) -> float | None:
        """Seconds left at this rate; None if unknown."""
        if self.total == 0 or self.done == 0:
            return None
        return max(self.total - self.done, 0) / self.rate if self.rate > 0 else None


OnProgress = Callable[[Progress], None]


def unpacked(on_progress: OnProgress | None) -> Callable[[str, str, int, int, float], None] | None:
    """Return a callback that takes the fields of `Progress` one by one, as fast/text calls it."""
    if on_progress is None:
        return None

    def report(stage: str, unit: str, done: int, total: int, elapsed_s: float) -> None:
        on_progress(Progress(stage, unit, done, total, elapsed_s))

    return report
