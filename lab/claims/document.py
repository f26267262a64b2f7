"""The ledger as a document: a table for each topic, pictures, programs, machines."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from cs_basics.run.document import (
    Block,
    Code,
    Heading,
    Items,
    Paragraph,
    Picture,
    Table,
    to_png,
)
from lab.claims.claim import FALSE, NOT_SEEN
from lab.claims.ledger import TOPICS, Entry, verdict_of
from lab.claims.program import output_of
from lab.claims.row import Row

TITLE = "Every claim about the norm and its neighbours, executed"
HEADER = (
    "claim", "verdict", "value", "what is measured", "source", "command; code", "measured",
)  # fmt: skip
AT_LEAST_PARTLY, NOT_MEASURED = "true, or true where ...", "not measured"
COLOURS = {
    AT_LEAST_PARTLY: "tab:green", FALSE: "tab:red", NOT_SEEN: "tab:gray", NOT_MEASURED: "lightgray",
}  # fmt: skip
PICTURES = Path("pictures")
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
            "Written by python -m lab.claims. A value is a mean over seeds with its 95 % t "
            "interval; one without interval does not depend on a seed. Verdicts: true; true where"
            " ...; not seen (no effect beyond the interval, or one smaller than the claim says); "
            'false. Source "circulates": texts repeat it without a measurement. Names are those '
            "that python -m lab.claims takes. A, B, C: the machines at the end; times are ratios "
            "of medians of runs in turn, in one process. docs/norms.md explains."
        ),
        Items(counted(results)),
        Picture(
            (PICTURES / "verdicts.png").as_posix(),
            "The verdicts by topic",
            drawn(lambda axes: draw_verdicts(axes, results)),
        ),
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
    """Return a verdict without its conditions; what one seed cannot judge is not measured."""
    if verdict.startswith(("not measured", "not judged")):
        return NOT_MEASURED
    return verdict if verdict in (FALSE, NOT_SEEN) else AT_LEAST_PARTLY


def table(results: Sequence[Result], letters: dict[str, str]) -> Table:
    """Return the rows of one topic."""
    rows = [
        [
            result.entry.claim.says,
            result.verdict,
            value_of(result),
            result.entry.claim.shows,
            result.entry.claim.source,
            f"{result.entry.name}; {result.entry.topic}/{result.entry.path.name}",
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
        # A row may come from a machine that has what the program needs.
        can_run = result.row.values and not result.entry.missing
        output = output_of(claim.program).splitlines() if can_run else []
        found.append(Code("\n".join([claim.program, *(f"# -> {line}" for line in output)])))
    if claim.draw is not None and result.row.values:
        picture = (PICTURES / f"{claim.name}.png").as_posix()
        draw, intervals = claim.draw, result.row.intervals()
        found.append(Picture(picture, claim.says, drawn(lambda axes: draw(axes, intervals))))
    return found


def draw_verdicts(axes: Axes, results: Sequence[Result]) -> None:
    """Draw how many claims of each topic got which verdict."""
    topics = [topic for topic in TOPICS if any(r.entry.topic == topic for r in results)][::-1]
    ends = dict.fromkeys(topics, 0)
    for kind, colour in COLOURS.items():
        for topic in topics:
            of_kind = [r for r in results if r.entry.topic == topic and kind_of(r.verdict) == kind]
            bar = axes.barh(TOPICS[topic], len(of_kind), left=ends[topic], color=colour)
            ends[topic] += len(of_kind)
            if of_kind:
                axes.bar_label(bar, label_type="center", color="white")
    axes.set_xlabel("claims")
    patches = [Patch(color=colour, label=kind) for kind, colour in COLOURS.items()]
    axes.legend(
        handles=patches, loc="lower right", bbox_to_anchor=(1, 1), ncols=4, frameon=False,
        fontsize="small",
    )  # fmt: skip


def drawn(draw: Callable[[Axes], None]) -> bytes:
    """Return what is drawn as a PNG."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    draw(axes)
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    return to_png(figure)
