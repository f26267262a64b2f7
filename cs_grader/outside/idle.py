"""How long a submission may keep the grader waiting without computing anything, in total.

Measured from outside: whatever a submission does to the processes in its sandbox, it cannot fake
the time that they spend on a processor, or in the queue for one.
"""

import contextlib
import threading
from collections.abc import Callable, Generator

from cs_grader.inside.processes import HAS_PROC, cpu_below, queued_below

SOON_S = 0.2
WINDOW_S = 1.0
# Shares of a second. Processes that compute get a processor, or queue for one; processes that wait
# only wake up now and then, as the server in the sandbox does.
LEAST_CPU, LEAST_DEMAND = 0.02, 0.1


class IdleTime:
    """Counts the time in which nothing is computed, and ends the sandbox when it is used up."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.used_s = 0.0

    @property
    def is_used_up(self) -> bool:
        """Whether a submission may not wait any more."""
        return self.used_s >= self.limit_s

    @contextlib.contextmanager
    def counted(self, end: Callable[[], None]) -> Generator[None]:
        """Count while the block runs.

        Args:
            end: Called from another thread when the time is used up; should end what is waited for.
        """
        over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(over, end), daemon=True)
        if HAS_PROC:
            watch.start()
        try:
            yield
        finally:
            over.set()
            if HAS_PROC:
                watch.join()

    def _watch(self, over: threading.Event, end: Callable[[], None]) -> None:
        if over.wait(SOON_S):
            return  # Most probes are over by now: no need to look.
        cpu_before, queued_before = cpu_below(), queued_below()
        while not over.wait(WINDOW_S):
            cpu, queued = cpu_below(), queued_below()
            got = (cpu - cpu_before) / WINDOW_S
            # Processes that have ended take what they had queued with them.
            waited = max(queued - queued_before, 0) / WINDOW_S
            if got < LEAST_CPU or got + waited < LEAST_DEMAND:
                self.used_s += WINDOW_S
            cpu_before, queued_before = cpu, queued
            if self.is_used_up:
                end()
                return
