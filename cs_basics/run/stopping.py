"""Ctrl-C and SIGTERM, noted while an update is under way and obeyed after it.

Tested by `make test ARGS=tests/project/test_stopping.py`.
"""

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# A Ctrl-C so soon after the first is the same one: torchrun hands on what its processes got, too.
SAME_PRESS_S = 1.0


class TrainingStoppedError(Exception):
    """A run was asked to stop, and did: everything is saved.

    Args:
        step: The last update that was made.
        signal_number: The signal that asked for it.
    """

    def __init__(self, step: int, signal_number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name} after step {step:,}")
        self.step, self.signal_number = step, signal_number


class StopSignals:
    """Note Ctrl-C and SIGTERM while the context lasts; a second Ctrl-C ends it at once.

    Outside the main thread, where Python allows no handlers, nothing is noted.
    """

    def __init__(self) -> None:
        self.received = 0
        """Number of the signal that came; 0: none."""
        self._received_at = 0.0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._note) for number in SIGNALS}
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
        elif number == signal.SIGINT and now - self._received_at > SAME_PRESS_S:
            raise KeyboardInterrupt
