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

    @property
    def compared(self) -> tuple[str, str]:
        """The peer's figure and the ratio of ours to it, if there is a peer."""
        if self.peer is None:
            return "", ""
        return f"{self.peer:,.5g}", f"{self.ours / self.peer:.2f}"


def show(rows: Iterable[Row]) -> list[Row]:
    """Print a line for each row, as soon as it is there; return them all."""
    shown: list[Row] = []
    print(f"{'':60}{'ours':>10}{'peer':>10}  {'unit':<10}{'ratio':>7}")
    for row in rows:
        peer, ratio = row.compared
        line = f"{row.name:60}{row.ours:>10,.5g}{peer:>10}  {row.unit:<10}{ratio:>7}"
        print(line.rstrip(), flush=True)
        shown.append(row)
    return shown


def write_table(subject: str, rows: Sequence[Row]) -> None:
    """Write rows into docs/performance.md, between the two comments that name their subject.

    Raises:
        ValueError: The page has no such comment.
    """
    page = PAGE.read_text(encoding="utf-8")
    start, end = f"<!-- python -m lab.bench {subject} -->\n", "\n<!-- end -->"
    before, found, rest = page.partition(start)
    if not found:
        raise ValueError(f"{PAGE} has no line {start.strip()}, which says where the table stands")
    after = rest[rest.index(end) :]
    versions = [f"{name} {version(name)}" for name in PEERS if find_spec(name)]
    lines = [
        f"{datetime.date.today()}, {machine()}, {', '.join(versions)}:", "",
        "| | unit | ours | peer | ratio |", "|---|---|--:|--:|--:|",
    ]  # fmt: skip
    for row in rows:
        cells = (row.name, row.unit, f"{row.ours:,.5g}", *row.compared)
        lines.append(f"| {' | '.join(cells)} |")
    write_atomically(PAGE, (before + start + "\n".join(lines) + after).encode())
