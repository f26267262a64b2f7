"""Verified entries, one a line of JSON, and the page that is made of them."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from cs_grader.entries.statistics import p_value
from cs_grader.outputs.markdown import code, escape
from cs_grader.result import printable, write_atomically

HEADER = """\
# Leaderboard

Bits per byte on the validation text, lower is better. Every figure was found by
`scripts/instructor/verify.py`, which ran the command again (docs/running.md says how); the page is
written by it, from `{source}`. *p* is the probability that chance alone puts the mean
at least this far below that of the best entry before it, of the same class and text (exact
permutation test over seeds; p < 0.01 needs five seeds against four). If further seeds were run, the
entry's own does not count: it may have been chosen. The presets in the commands are those of the
day: presets change.
"""
COLUMNS = (
    "| bits per byte | seeds | entry | author | p | seconds to the weights | verified | command |"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """An entry that was accepted."""

    name: str
    author: str
    contest: str
    """Its class."""
    command: str
    text: str
    """SHA-256 of the validation text: figures on another one cannot be compared."""
    bits_per_byte: list[float]
    """One figure for each repeated run, each with a seed of its own."""
    seconds: float
    """How long the first repeated run took to write its last weights."""
    date: str

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return sum(self.bits_per_byte) / len(self.bits_per_byte)


def read_leaderboard(path: Path) -> list[Verified]:
    """Read the verified entries; none if there is no such file.

    Raises:
        ValueError: A line is not a verified entry.
    """
    if not path.exists():
        return []
    entries: list[Verified] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            entries.append(Verified(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} line {number} is not a verified entry: {error}") from None
    return entries


def best_before(entry: Verified, others: list[Verified]) -> Verified | None:
    """Return the best of the others that an entry can be compared with."""
    alike = [one for one in others if (one.contest, one.text) == (entry.contest, entry.text)]
    return min(alike, key=lambda one: one.mean, default=None)


def compared(entry: Verified, others: list[Verified]) -> str:
    """Say with which confidence an entry is better than the best before it."""
    best = best_before(entry, others)
    if best is None:
        return "the first of its class on this text"
    p = p_value(entry.bits_per_byte, best.bits_per_byte)
    difference = f"{abs(entry.mean - best.mean):.4f} bits per byte"
    if entry.mean >= best.mean:
        return f"not better than {best.name} ({entry.mean:.4f} against {best.mean:.4f})"
    runs = f"{len(entry.bits_per_byte)} against {len(best.bits_per_byte)} runs"
    return f"better than {best.name} by {difference}, p = {p:.3g} ({runs}, permutation test)"


def add(path: Path, entry: Verified) -> None:
    """Add an entry to the file, and write the page beside it."""
    entries = [*read_leaderboard(path), entry]
    lines = [json.dumps(asdict(one), ensure_ascii=False) for one in entries]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "\n".join(lines) + "\n")
    write_atomically(path.with_suffix(".md"), page(entries, path.name))


def page(entries: list[Verified], source: str) -> str:
    """Write the page: a table for each class and text, the best first."""
    parts = [HEADER.format(source=source)]
    for contest, text in dict.fromkeys((one.contest, one.text) for one in entries):
        alike = [one for one in entries if (one.contest, one.text) == (contest, text)]
        rows = {id(one): _row(one, alike[:place]) for place, one in enumerate(alike)}
        parts.append(f"## {contest.capitalize()}, validation text {text[:12]}\n")
        parts.append(f"{COLUMNS}\n{'|---' * COLUMNS.count(' | ')}|---|")
        parts += [rows[id(one)] for one in sorted(alike, key=lambda one: one.mean)]
        parts.append("")
    if not entries:
        parts.append("No entry has been verified yet.\n")
    return "\n".join(parts)


def _row(entry: Verified, before: list[Verified]) -> str:
    best = best_before(entry, before)
    p = f"{p_value(entry.bits_per_byte, best.bits_per_byte):.3g}" if best else ""
    # Whoever hands in an entry chooses its words.
    name, author, command = (
        printable(text, 200) for text in (entry.name, entry.author, entry.command)
    )
    cells = [f"{entry.mean:.4f}", str(len(entry.bits_per_byte)), escape(name), escape(author), p]
    cells += [f"{entry.seconds:.0f}", entry.date, code(command)]
    return f"| {' | '.join(cells)} |"
