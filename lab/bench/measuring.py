"""Rows: what every benchmark gives, shows and writes."""

import datetime
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import NamedTuple

from cs_basics.run.atomic import write_atomically
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

    @property
    def compared(self) -> tuple[str, str]:
        """The peer's figure and the ratio of ours to it, if there is a peer."""
        if self.peer is None:
            return "", ""
        return f"{self.peer:,.5g}", f"{self.ours / self.peer:.2f}"


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
    goal, met = "", None
    if at_most is not None:
        goal, met = f"at most {at_most} x", ours / peer <= at_most
    elif at_least is not None:
        goal, met = f"at least {at_least} x", ours / peer >= at_least
    return Row(name, ours, unit, peer, goal, met)


def show(rows: Iterable[Row]) -> list[Row]:
    """Print a line for each row, as soon as it is there; return them all."""
    shown: list[Row] = []
    print(f"{'':60}{'ours':>10}{'peer':>10}  {'unit':<10}{'ratio':>7}  goal")
    for row in rows:
        peer, ratio = row.compared
        goal = f"{row.goal}: {'met' if row.met else 'MISSED'}" if row.goal else ""
        line = f"{row.name:60}{row.ours:>10,.5g}{peer:>10}  {row.unit:<10}{ratio:>7}  {goal}"
        print(line.rstrip(), flush=True)
        shown.append(row)
    return shown


def write_table(subject: str, rows: Sequence[Row]) -> None:
    """Write figures into docs/performance.md, between the two comments that name their subject.

    The page chooses its rows: those that stand there get their new figures, the others are only
    printed. Where no row stands yet, all are written.
    """
    page = PAGE.read_text(encoding="utf-8")
    start, end = f"<!-- python -m lab.bench {subject} -->\n", "\n<!-- end -->"
    before, found, rest = page.partition(start)
    if not found:
        raise ValueError(f"{PAGE} has no line {start.strip()}, which says where the table stands")
    old, after = rest[: rest.index(end)], rest[rest.index(end) :]
    kept = {line.split("|")[1].strip() for line in old.splitlines()[4:]}
    versions = [f"{name} {version(name)}" for name in PEERS if find_spec(name)]
    lines = [
        f"{datetime.date.today()}, {machine()}, {', '.join(versions)}:", "",
        "| | unit | ours | peer | ratio |", "|---|---|--:|--:|--:|",
    ]  # fmt: skip
    for row in rows:
        if kept and row.name.strip() not in kept:
            continue
        cells = (row.name.strip(), row.unit, f"{row.ours:,.5g}", *row.compared)
        lines.append(f"| {' | '.join(cells)} |")
    write_atomically(PAGE, (before + start + "\n".join(lines) + after).encode())
