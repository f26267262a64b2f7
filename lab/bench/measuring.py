"""Rows, clocks and memory: what every benchmark shares."""

import datetime
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import NamedTuple

from cs_basics.run.atomic import write_atomically
from cs_grader.sandbox.processes import descendants, memory_of
from lab import ROOT
from lab.timing import machine

PAGE = ROOT / "docs" / "performance.md"
PEERS = ("transformers", "tokenizers", "tiktoken", "gigatoken")


class Row(NamedTuple):
    """One measurement, with what it is compared to."""

    name: str
    ours: float
    unit: str
    peer: float | None = None
    """The same of the peer that the name gives, measured in the same run."""
    goal: str = ""
    met: bool | None = None


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


def show(rows: Iterable[Row]) -> list[Row]:
    """Print a line for each row, as soon as it is there; return them all."""
    shown: list[Row] = []
    print(f"{'':60}{'ours':>10}{'peer':>10}  {'unit':<10}{'ratio':>7}  goal")
    for row in rows:
        peer = "" if row.peer is None else f"{row.peer:,.4g}"
        ratio = "" if row.peer is None else f"{row.ours / row.peer:.2f}"
        goal = f"{row.goal}: {'met' if row.met else 'MISSED'}" if row.goal else ""
        line = f"{row.name:60}{row.ours:>10,.4g}{peer:>10}  {row.unit:<10}{ratio:>7}  {goal}"
        print(line.rstrip(), flush=True)
        shown.append(row)
    return shown


def write_table(subject: str, rows: Sequence[Row]) -> None:
    """Write rows into docs/performance.md, between the two comments that name their subject."""
    versions = [f"{name} {version(name)}" for name in PEERS if find_spec(name)]
    lines = [
        f"{datetime.date.today()}, {machine()}, {', '.join(versions)}:", "",
        "| | unit | ours | peer | ratio |", "|---|---|--:|--:|--:|",
    ]  # fmt: skip
    for name, ours, unit, peer, *_ in rows:
        cells = ["", ""] if peer is None else [f"{peer:,.4g}", f"{ours / peer:.2f}"]
        lines.append(f"| {' | '.join([name.strip(), unit, f'{ours:,.4g}', *cells])} |")
    page = PAGE.read_text(encoding="utf-8")
    start, end = f"<!-- python -m lab.bench {subject} -->\n", "\n<!-- end -->"
    before, found, rest = page.partition(start)
    if not found:
        raise ValueError(f"{PAGE} has no line {start.strip()}, which says where the table stands")
    after = rest[rest.index(end) :]
    write_atomically(PAGE, (before + start + "\n".join(lines) + after).encode())


def peak_memory_of(command: list[str], text: str, environment: dict[str, str]) -> float:
    """Run a command; return the largest sum of the resident memory of its processes, in MB.

    Args:
        command: What to run.
        text: What it reads from stdin.
        environment: Its environment variables.

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
