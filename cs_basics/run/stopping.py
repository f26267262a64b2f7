"""Clean stops: Ctrl-C, SIGTERM and SIGHUP are recorded; the run stops after the current update."""

import logging
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, Self

logger = logging.getLogger(__name__)

SIGNALS = [
    signal.Signals[name]
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)  # Windows has no SIGHUP, which a closed terminal sends.
]
# A second SIGINT within this time is the same Ctrl-C: the terminal sends it to every process, and
# torchrun forwards it to its processes once more.
SAME_PRESS_S = 1.0


class TrainingStoppedError(Exception):
    """A run was stopped by a signal, after it saved a checkpoint.

    Args:
        step: Number of the last update.
        signal_number: Number of the signal.
    """

    def __init__(self, step: int, signal_number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name} after step {step:,}")
        self.step, self.signal_number = step, signal_number


class StopSignals:
    """Context manager that records the first of SIGNALS; a second Ctrl-C raises KeyboardInterrupt.

    A signal that is ignored stays ignored, as SIGHUP is under nohup. Outside the main thread it
    records nothing, since Python allows signal handlers only there.
    """

    def __init__(self) -> None:
        self.received = 0
        """Number of the first signal; 0: none came."""
        self._received_at = 0.0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            heeded = [n for n in SIGNALS if signal.getsignal(n) is not signal.SIG_IGN]
            self._previous = {number: signal.signal(number, self._note) for number in heeded}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if not self.received:
            self.received, self._received_at = number, now
            logger.info("the run ends after this update; a second Ctrl-C ends it at once")
        elif number == signal.SIGINT and now - self._received_at > SAME_PRESS_S:
            raise KeyboardInterrupt
