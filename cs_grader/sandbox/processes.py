"""What the Linux kernel tells about processes; on other systems there appear to be none.

And a watch over those of a submission from inside the sandbox: what they use up, how they end.
"""

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Collection
from pathlib import Path

from cs_grader.sandbox.confine import Settings

HAS_PROC = Path("/proc/self/stat").exists()


def children(pid: int) -> set[int]:
    """Ids of the processes that a process has started or adopted."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found |= set(map(int, (task / "children").read_text().split()))
    return found


def descendants(pid: int) -> set[int]:
    """Ids of the processes below a process."""
    found: set[int] = set()
    stack = [pid]
    while stack:
        below = children(stack.pop()) - found
        found |= below
        stack += below
    return found


def is_over(pid: int) -> bool:
    """Whether a process has ended, though its parent may not have noticed."""
    return (_fields(pid) or ["X"])[0] in "ZX"


def cpu_below() -> float:
    """CPU seconds of all processes below this one, ended ones included once waited for."""
    me = os.getpid()
    ticks = sum(map(int, _fields(me)[13:15]))
    ticks += sum(sum(map(int, _fields(pid)[11:15])) for pid in descendants(me))
    return ticks / os.sysconf("SC_CLK_TCK")


def cpu_elsewhere(pid: int) -> float:
    """The same without what one of these processes has computed itself."""
    return cpu_below() - sum(map(int, _fields(pid)[11:13])) / os.sysconf("SC_CLK_TCK")


def queued_below() -> float:
    """Seconds that the processes below this one have waited for a processor to be free."""
    waited = 0
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError, ValueError, IndexError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                waited += int((task / "schedstat").read_text().split()[1])
    return waited / 1e9


def memory_of(pids: Collection[int], enough: int) -> int:
    """Bytes that processes hold together: up to `enough` only a bound, which is faster to get."""
    # Memory that several share counts for each of them here.
    most = sum(map(_resident, pids))
    return most if most <= enough else sum(map(_own_share, pids))


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _own_share(pid: int) -> int:
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except PermissionError:
        return _resident(pid)  # It has closed itself to others.
    except OSError:
        return 0
    return sum(int(row.split()[1]) * 1024 for row in rows if row.startswith("Pss:"))


def excess(processes: int, memory_bytes: int, more_processes: int = 0, more_memory: int = 0) -> str:
    """Say what the processes below this one have too much of, of which some more is allowed."""
    below, most = descendants(os.getpid()), memory_bytes + more_memory
    if len(below) > processes + more_processes:
        return f"over {processes} processes"
    return over_memory(memory_bytes) if memory_of(below, most) > most else ""


def _fields(pid: int) -> list[str]:
    """What /proc says about a process, from its state on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


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
            if found := excess(self.settings.processes, self.settings.memory_bytes):
                return found
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
