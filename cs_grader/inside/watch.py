"""Watches processes from inside the sandbox: what they use up, how they end."""

import contextlib
import os
import select
import signal
import socket
import time

from cs_grader.inside.processes import HAS_PROC, cpu_below, descendants, memory_of
from cs_grader.inside.settings import Settings

TICK_S = 0.25
# A function that these processes still need after a submission may have patched it.
NOW = time.monotonic


class Watch:
    """Watches all processes below the server while they compute."""

    def __init__(self, cpu_s: float, wall_s: float, settings: Settings) -> None:
        self.cpu_s = cpu_s
        self.wall_s = wall_s
        self.settings = settings
        self.started = NOW()

    def wait(self, channel: socket.socket) -> str | None:
        """Wait until there is something to read; say what went over its limit, or None."""
        poll = select.poll()
        poll.register(channel, select.POLLIN)
        if poll.poll(TICK_S * 1000):
            return None
        before = cpu_below()
        spent, spent_at = 0.0, NOW()
        while not poll.poll(TICK_S * 1000):
            now = NOW()
            used = cpu_below() - before
            if used > spent + 0.01 * (now - spent_at):
                spent, spent_at = used, now
            if used > self.cpu_s + 1:
                return f"over {self.cpu_s:g} s of CPU"
            if now - self.started > self.wall_s:
                return f"no answer within {self.wall_s:g} s"
            if HAS_PROC and now - spent_at > self.settings.idle_s:
                idle = f"{self.settings.idle_s:g} s"
                return f"no answer: waited for {idle} without computing anything"
            below = descendants(os.getpid())
            if len(below) > self.settings.processes:
                return f"over {self.settings.processes} processes"
            if memory_of(below, self.settings.memory_bytes) > self.settings.memory_bytes:
                return over_memory(self.settings.memory_bytes)
        return None


def ending(status: int, cpu_s: float) -> str:
    """Say how a process ended, from its wait status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGXCPU:
            return f"over {cpu_s:g} s of CPU"
        with contextlib.suppress(ValueError):
            return f"crashed with {signal.Signals(number).name}"
        return f"crashed with signal {number}"
    return f"exited with status {os.WEXITSTATUS(status)}"


def over_memory(memory_bytes: int) -> str:
    """Say that processes used too much memory."""
    return f"over {memory_bytes / 2**30:g} GB"
