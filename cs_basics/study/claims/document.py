"""The ledger as a document: a table for each topic, pictures, programs, machines."""

import io
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cs_basics.run.document import (
    Block,
    Code,
    Heading,
    Items,
    Paragraph,
    Picture,
    Table,
)
from cs_basics.study.claims.claim import FALSE, NOT_SEEN, Intervals
from cs_basics.study.claims.ledger import TOPICS, Entry, verdict_of
from cs_basics.study.claims.program import output_of
from cs_basics.study.claims.row import Row

TITLE = "Every claim about the norm and its neighbours, executed"
HEADER = (
    "claim", "verdict", "value", "what is measured", "source", "command", "code", "measured",
)  # fmt: skip
PICTURES = Path("pictures") / "claims"
"""Folder of the pictures, beside the Markdown."""


@dataclass(frozen=True)
class Result:
    """A claim and what was measured of it."""

    entry: Entry
    row: Row

    @property
    def verdict(self) -> str:
        """The verdict, or why there is none."""
        return verdict_of(self.entry, self.row)


def blocks(results: Sequence[Result]) -> list[Block]:
    """Return the document."""
    machines = list(dict.fromkeys(r.row.machine for r in results if r.row.values))
    letters = {machine: chr(ord("A") + i) for i, machine in enumerate(machines)}
    document: list[Block] = [
        Paragraph(
            "Written by make claims. A value is a mean over seeds with its 95 % t interval; one "
            "without interval does not depend on a seed. Verdicts: true; true where ...; not seen "
            "(the effect is not larger than its interval); false. The command stands in "
            "scripts/maintain, the code in cs_basics/study/claims; times (ratios of medians of "
            "runs in turn, in one process) are of a machine, see the end. docs/norms.md explains."
        ),
        Items(counted(results)),
    ]
    for topic, heading in TOPICS.items():
        of_topic = [result for result in results if result.entry.topic == topic]
        if of_topic:
            document += [Heading(heading), table(of_topic, letters)]
            document += [block for result in of_topic for block in details(result)]
    machine_lines = [f"{letter}: {machine}" for machine, letter in letters.items()]
    return [*document, Heading("Machines"), Items(machine_lines)]


def counted(results: Sequence[Result]) -> list[str]:
    """Count the verdicts."""
    kinds = Counter(kind_of(result.verdict) for result in results)
    return [f"{len(results)} claims", *(f"{number} {kind}" for kind, number in kinds.most_common())]


def kind_of(verdict: str) -> str:
    """Return a verdict without its conditions."""
    if verdict.startswith("not measured"):
        return "not measured"
    return verdict if verdict in (FALSE, NOT_SEEN) else "true, or true where ..."


def table(results: Sequence[Result], letters: dict[str, str]) -> Table:
    """Return the rows of one topic."""
    rows = [
        [
            result.entry.claim.says,
            result.verdict,
            value_of(result),
            result.entry.claim.shows,
            result.entry.claim.source,
            f"claims.py {result.entry.name}",
            f"{result.entry.topic}/{result.entry.path.name}",
            measured_when(result, letters),
        ]
        for result in results
    ]
    return Table(HEADER, rows, anchors=[r.entry.name for r in results], is_text=True)


def measured_when(result: Result, letters: dict[str, str]) -> str:
    """Return the day, the machine's letter and the number of seeds."""
    if not result.row.values:
        return "-"
    measured = f"{result.row.date}, {letters[result.row.machine]}"
    if result.entry.claim.is_exact:
        return measured
    num_seeds = len(result.row.values)
    return f"{measured}, {num_seeds} seed{'s' * (num_seeds > 1)}"


def value_of(result: Result) -> str:
    """Return the values that the table shows."""
    if not result.row.values:
        return "-"
    intervals = result.row.intervals()
    shown = result.entry.claim.shown or tuple(intervals)
    return "; ".join(f"{name}: {intervals[name]}" for name in shown)


def details(result: Result) -> list[Block]:
    """Return the program and the picture of a claim, if it has them."""
    claim, found = result.entry.claim, list[Block]()
    if claim.program:
        found.append(Paragraph(f'"{claim.says}" {result.verdict.capitalize()}. {claim.correct}'))
        output = output_of(claim.program).splitlines() if result.row.values else []
        found.append(Code("\n".join([claim.program, *(f"# -> {line}" for line in output)])))
    if claim.draw is not None and result.row.values:
        picture = (PICTURES / f"{claim.name}.png").as_posix()
        found.append(Picture(picture, claim.says, drawn(claim.draw, result.row.intervals())))
    return found


def drawn(draw: Callable[[Axes, Intervals], None], intervals: Intervals) -> bytes:
    """Draw the picture of a claim; return a PNG."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    draw(axes, intervals)
    axes.grid(alpha=0.3)
    buffer = io.BytesIO()
    # Without the date and version that matplotlib would write, equal values give equal files.
    figure.savefig(buffer, dpi=110, format="png", metadata={"Software": None})
    return buffer.getvalue()
