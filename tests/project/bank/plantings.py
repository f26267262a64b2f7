"""Text patches on whole implementations: which lines of which file become which.

There are two: the reference, and one that was written without sight of it (independent/). Of
each patch the text files say problem, name and file, the right lines (-) and the other ones (+):

    == softmax | the sum is over everything | functional.py
    -    return weights / weights.sum(dim=dim, keepdim=True)
    +    return weights / weights.sum()

A file of the independent implementation may be named as independent/functional.py where the text
file is of the reference, and what a bank wants to know besides follows after further bars.
"""

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = {
    "reference": ROOT / "cs_basics",
    "independent": ROOT / "tests" / "project" / "bank" / "independent",
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

    @property
    def problems(self) -> tuple[str]:
        return (self.problem,)

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


def put_in_place(planting: Planting, place: Path, config: pytest.Config) -> None:
    """Let the items examine a repository with the fault in it."""
    write_repository(planting, place)
    config.option.submission = place
    for name in [name for name in sys.modules if name.partition(".")[0] == "cs_basics"]:
        del sys.modules[name]


def write_repository(planting: Planting, place: Path) -> None:
    package = place / "cs_basics"
    package.mkdir(parents=True)
    for style in dict.fromkeys(("reference", planting.style)):
        for file in SOURCES[style].glob("*.py"):
            shutil.copy(file, package)
    (place / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "adapters.py", place / "tests")
    file = package / planting.file
    source, _ = planting.planted(file.read_text(encoding="utf-8"))
    file.write_text(source, encoding="utf-8")
