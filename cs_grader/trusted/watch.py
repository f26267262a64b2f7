"""Ends a sandbox that uses too much, or keeps the grader waiting without computing anything.

Measured from outside: whatever a submission does to the processes in its sandbox, it cannot fake
the memory that they hold, nor the time that they spend on a processor or in the queue for one. The
limits for one probe are smaller and kept inside (sandbox/processes.py), by a server that a
submission may have stopped.
"""

import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Generator

from cs_grader.sandbox.processes import HAS_PROC, cpu_below, excess, queued_below
from cs_grader.trusted.sandbox import Limits

SOON_S = 0.2
WINDOW_S = 1.0
# Shares of a second. Processes that compute get a processor, or queue for one; processes that wait
# only wake up now and then, as the server in the sandbox does.
LEAST_CPU, LEAST_DEMAND = 0.02, 0.1
# The server in the sandbox, which measures too, comes first.
MORE_IDLE_S = 2.0
# The sandbox, its server and its host have some memory and some processes of their own.
MORE_MEMORY, MORE_PROCESSES = 2**29, 8


class Watch:
    """Watches all processes below this one while an answer is awaited."""

    def __init__(self, limits: Limits, waited_s: defaultdict[str, float]) -> None:
        self.limits = limits
        self.waited_s = waited_s
        """For each problem, seconds in which nothing was computed, of all its probes together."""
        self.excess = ""
        """What went over its limit while the last answer was awaited."""

    @contextlib.contextmanager
    def during(self, problem: str, idle_s: float, end: Callable[[], None]) -> Generator[None]:
        """Watch while the block runs.

        Args:
            problem: Whose time it is if nothing is computed.
            idle_s: How long that may be.
            end: Called from another thread when a limit is passed; should end what is waited for.
        """
        self.excess = ""
        over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(over, problem, idle_s, end), daemon=True)
        if HAS_PROC:
            watch.start()
        try:
            yield
        finally:
            over.set()
            if HAS_PROC:
                watch.join()

    def _watch(
        self, over: threading.Event, problem: str, idle_s: float, end: Callable[[], None]
    ) -> None:
        if over.wait(SOON_S):
            return  # Most probes are over by now: no need to look.
        waited_s, most_s = 0.0, idle_s + MORE_IDLE_S
        cpu_before, queued_before = cpu_below(), queued_below()
        while not over.wait(WINDOW_S):
            cpu, queued = cpu_below(), queued_below()
            got = (cpu - cpu_before) / WINDOW_S
            # Processes that have ended take what they had queued with them.
            waited = max(queued - queued_before, 0) / WINDOW_S
            if got < LEAST_CPU or got + waited < LEAST_DEMAND:
                waited_s += WINDOW_S
                self.waited_s[problem] += WINDOW_S
            cpu_before, queued_before = cpu, queued
            if waited_s >= most_s:
                limit = f"{waited_s:g} s without computing anything"
                self.excess = f"no answer: waited for {limit}"
            else:
                self.excess = excess(
                    self.limits.processes, self.limits.memory_bytes, MORE_PROCESSES, MORE_MEMORY
                )
            if self.excess:
                end()
                return
