"""The page of verified entries: one table, the best first."""

import re
from dataclasses import dataclass
from pathlib import Path

from cs_grader.plain_text import plain
from cs_grader.result import write_atomically
from cs_grader.results.markdown import code, escape

HEADER = """\
# Leaderboard

Bits per byte on the validation text, lower is better: the mean over the runs that
`scripts/instructor/verify.py` made of the command, which adds the row (docs/teach.md says how).
If further seeds were run, the entry's own does not count: it may have been chosen. *Text* is the
beginning of the SHA-256 of the validation text: figures on different texts cannot be compared. The
presets in the commands are those of the day: presets change.

| class | text | bits per byte | runs | entry | author | seconds | verified | command |
|---|---|---|---|---|---|---|---|---|
"""
ROW = re.compile(r"\| ([a-z-]+) \| ([0-9a-f]{12}) \| (\d+\.\d+) \| ")


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """An entry that was accepted."""

    name: str
    author: str
    contest: str
    """Its class."""
    command: str
    text: str
    """SHA-256 of the validation text."""
    bits_per_byte: list[float]
    """One figure for each repeated run, each with a seed of its own."""
    seconds: float
    """How long the first repeated run took to write its last weights."""
    date: str

    @property
    def mean(self) -> float:
        """The mean over runs."""
        return sum(self.bits_per_byte) / len(self.bits_per_byte)


def add(path: Path, entry: Verified) -> None:
    """Add the row of an entry to the table of a page, which is made if it is not there.

    Raises:
        ValueError: The file is another one than this page.
    """
    page = path.read_text(encoding="utf-8") if path.exists() else HEADER
    if not page.startswith(HEADER):
        raise ValueError(f"{path} is no leaderboard: use another file")
    rows = [*page.removeprefix(HEADER).splitlines(), row(entry)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, HEADER + "".join(f"{line}\n" for line in sorted(rows, key=_place)))


def row(entry: Verified) -> str:
    """Write the row of an entry. Whoever hands it in has chosen its words."""
    words = entry.name, entry.author, entry.command
    name, author, command = (plain(text, 200) for text in words)
    figures = ", ".join(f"{figure:.4f}" for figure in entry.bits_per_byte)
    cells = [entry.contest, entry.text[:12], f"{entry.mean:.4f}", figures, escape(name)]
    cells += [escape(author), f"{entry.seconds:.0f}", entry.date, code(command)]
    return f"| {' | '.join(cells)} |"


def _place(line: str) -> tuple[str, str, float]:
    found = ROW.match(line)
    if found is None:
        raise ValueError(f"this line of the leaderboard is no row: {plain(line, 100)}")
    return found[1], found[2], float(found[3])
