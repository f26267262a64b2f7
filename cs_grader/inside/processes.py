"""What the Linux kernel tells about processes; elsewhere there are none and they use nothing."""

import contextlib
import os
from pathlib import Path

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
    """Seconds of CPU of all below this process, and of all that any of them has waited for."""
    me = os.getpid()
    ticks = sum(map(int, _fields(me)[13:15]))
    ticks += sum(sum(map(int, _fields(pid)[11:15])) for pid in descendants(me))
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> int:
    """Bytes that a process holds; what several share counts in parts."""
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(row.split()[1]) * 1024 for row in rows if row.startswith("Pss:"))


def num_threads() -> int:
    """Threads of this process; 1 where that cannot be seen."""
    return sum(1 for _ in Path("/proc/self/task").iterdir()) if HAS_PROC else 1


def _fields(pid: int) -> list[str]:
    """What /proc says about a process, from its state on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
