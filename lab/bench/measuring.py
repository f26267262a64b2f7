"""Rows, clocks and the machine: what every benchmark shares."""

import datetime
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cs_basics.run.atomic import write_atomically
from cs_grader.inside.processes import descendants, memory_of
from lab.timing import ROUNDS, alternating_times, machine


@dataclass(frozen=True)
class Row:
    """One measurement, with what it is compared to."""

    name: str
    ours: float
    unit: str
    peer: float | None = None
    """The same of the peer that the name gives, measured in the same run."""
    goal: str | None = None
    met: bool | None = None

    @property
    def ratio(self) -> float | None:
        """Ours / peer."""
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
    write: Callable[[Path], None] | None = None
    """Writes the subject's tables into a document; None: no document has any."""


def write_measured(document: Path, name: str, parts: Sequence[str]) -> None:
    """Put date, machine and these parts between the two marks of this name in a document.

    Raises:
        ValueError: A mark does not occur exactly once.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    text = document.read_text(encoding="utf-8")
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"{document}: the tables go between {begin} and {end}, each once")
    before, rest = text.split(begin)
    today = datetime.datetime.now().astimezone().date().isoformat()
    content = "\n\n".join([f"Measured on {today}: {machine()}.", *parts])
    write_atomically(
        document, f"{before}{begin}\n{content}\n{end}{rest.partition(end)[2]}".encode()
    )


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


def median_time(function: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the median seconds of a call, after one that does not count."""
    return alternating_times([function], rounds)[0]


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
        processes = [process.pid, *descendants(process.pid)]
        peak = max(peak, memory_of(processes, enough=sys.maxsize) / 1e6)
        time.sleep(0.02)
    if process.returncode:
        raise ValueError(f"exit code {process.returncode} from {' '.join(command)}")
    return peak
