"""Rows, clocks and the machine: what every benchmark shares."""

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

ROUNDS = 5


@dataclass(frozen=True)
class Row:
    """One measurement, with what it is compared to."""

    name: str
    ours: float
    unit: str
    peer: float | None = None
    """The same by the other way that the name says, in the same run."""
    goal: str | None = None
    met: bool | None = None

    @property
    def ratio(self) -> float | None:
        """Ours in terms of the peer."""
        return None if self.peer is None else self.ours / self.peer

    def to_json(self) -> dict[str, Any]:
        """Return the columns of the table."""
        columns = ("name", "ours", "peer", "unit", "ratio", "goal", "met")
        return {column: getattr(self, column) for column in columns}


@dataclass(frozen=True)
class Report:
    """What a subject found."""

    rows: list[Row]
    text: str = ""
    """Tables of the subject's own, shown above the rows."""
    details: dict[str, Any] = field(default_factory=dict[str, Any])
    """What --json adds to machine and rows."""
    draw: Callable[[Path], None] | None = None
    """Writes the subject's plot as a PNG; None: it has none."""


def compare(
    name: str,
    ours: float,
    peer: float,
    unit: str,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
) -> Row:
    """Return a row whose goal, if any, is a bound on ours / peer."""
    ratio = ours / peer
    if at_most is not None:
        return Row(name, ours, unit, peer, f"at most {at_most} x", ratio <= at_most)
    if at_least is not None:
        return Row(name, ours, unit, peer, f"at least {at_least} x", ratio >= at_least)
    return Row(name, ours, unit, peer)


def machine() -> str:
    """Describe what the figures were measured on."""
    cache = cache_bytes(torch.device("cpu"))
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
        + (f"last cache {cache / 2**20:.0f} MiB, " if cache else "")
        + (f"{torch.cuda.get_device_name()}, " if torch.cuda.is_available() else "")
        + f"Python {platform.python_version()}, torch {torch.__version__}"
    )


def cache_bytes(device: torch.device) -> int | None:
    """Return the size of the last cache before memory, None where the system does not tell."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    try:
        return max(int(size.read_text().strip().removesuffix("K")) * 1024 for size in sizes)
    except (OSError, ValueError):
        return None


def seconds_of(function: Callable[[], object], device: torch.device | None = None) -> float:
    """Call a function and return the seconds it took.

    Args:
        function: What to measure.
        device: Where it works. A CUDA device is timed by its own events, since the call returns
            before the work is done.
    """
    if device is not None and device.type == "cuda":
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(device)
        begin.record()
        function()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1000
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def median_time(function: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the median seconds of a call, after one that does not count."""
    return alternating_times([function], rounds)[0]


def alternating_times(
    functions: list[Callable[[], object]],
    rounds: int = ROUNDS,
    *,
    device: torch.device | None = None,
    budget_s: float | None = None,
) -> list[float]:
    """Return the median seconds of each function, called in turn so that all share the noise.

    Args:
        functions: What to measure; each is called once before, which does not count.
        rounds: Turns that count; an odd number makes the median one of them.
        device: Where they work.
        budget_s: Stop after the first turn that ends later than this, but not before three.
    """
    for function in functions:
        function()
    times: list[list[float]] = [[] for _ in functions]
    start = time.perf_counter()
    for number in range(1, rounds + 1):
        for function, elapsed in zip(functions, times, strict=True):
            elapsed.append(seconds_of(function, device))
        is_late = budget_s is not None and time.perf_counter() - start > budget_s
        if is_late and number >= 3:
            break
    return [statistics.median(elapsed) for elapsed in times]


def peak_memory_of(
    command: list[str], text: str = "", environment: dict[str, str] | None = None
) -> float:
    """Run a command; return the largest sum of the resident memory of its processes, in MB.

    Args:
        command: What to run.
        text: What it reads from stdin.
        environment: Its environment variables; None: those of this process.

    Raises:
        ValueError: It failed.
    """
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    with process.stdin as stdin:
        stdin.write(text)
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, sum(resident_megabytes(pid) for pid in with_children(process.pid)))
        time.sleep(0.02)
    if process.returncode:
        raise ValueError(f"exit code {process.returncode} from {' '.join(command)}")
    return peak


def with_children(pid: int) -> list[int]:
    """Return a process and all its descendants (Linux)."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(known for child in children for known in with_children(int(child)))]


def resident_megabytes(pid: int) -> float:
    """Return the resident memory of a process, 0 if it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
