"""Faults planted in right code: which lines of which file become which.

The faults are of the kind that the bank holds, written into whole implementations in the style of
each: into the reference (reference.txt) and into one that was written without sight of it
(independent.txt). The line that differs is the one that a student would have to find.

Of each fault the text files say problem, name and file, the right lines (-) and the wrong ones (+):

    == softmax | the sum is over everything | functional.py
    -    return weights / weights.sum(dim=dim, keepdim=True)
    +    return weights / weights.sum()

A file of the independent implementation may be named as independent/functional.py where the text
file is of the reference, and what a bank wants to know besides follows after further bars.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SOURCES = {
    "reference": ROOT / "cs_basics",
    "independent": ROOT / "tests" / "project" / "edition" / "independent",
}


@dataclass(frozen=True)
class Planting:
    """One fault in one implementation."""

    style: str
    problem: str
    name: str
    file: str
    right: str
    wrong: str
    more: tuple[str, ...] = ()
    """What follows in the first line after the file."""

    @property
    def title(self) -> str:
        return f"{self.style}, {self.problem}: {self.name}"

    def planted(self, source: str) -> tuple[str, set[int]]:
        """Return the source with the fault in it, and the numbers of the lines that differ.

        Where lines are missing, those before and after them are meant.

        Raises:
            ValueError: The right lines are not in the source, or more than once.
        """
        if source.count(self.right) != 1:
            raise ValueError(f"{self.title}: {self.right!r} is not in {self.file} exactly once")
        before, after = source.split(self.right)
        first = before.count("\n") + 1
        return before + self.wrong + after, {first + place for place in self._places()}

    def _places(self) -> Iterator[int]:
        lines = [text.splitlines() for text in (self.right, self.wrong)]
        for kind, _, _, start, end in SequenceMatcher(None, *lines, autojunk=False).get_opcodes():
            if kind != "equal":
                yield from range(start, end) if kind != "delete" else (start - 1, start)


def load() -> list[Planting]:
    """Read all faults of all styles."""
    return [planting for style in SOURCES for planting in of_style(style)]


def of_style(style: str) -> list[Planting]:
    return read(HERE / f"{style}.txt", style)


def read(path: Path, style: str) -> list[Planting]:
    entries = ("\n" + path.read_text(encoding="utf-8")).split("\n== ")[1:]
    return [entry_of(style, entry + "\n") for entry in entries]


def entry_of(style: str, entry: str) -> Planting:
    head, *lines = entry.splitlines(keepends=True)
    problem, name, file, *more = (word.strip() for word in head.split("|"))
    folder, _, inside = file.partition("/")
    style, file = (folder, inside) if folder in SOURCES else (style, file)
    right, wrong = ("".join(line[1:] for line in lines if line[0] == sign) for sign in "-+")
    return Planting(style, problem, name, file, right, wrong, tuple(more))
