"""What the examination is tried on: a change of an implementation, and what should come of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import RUBRIC

from bank.patches import STYLES, Patch, read

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """One implementation that the examination is tried on."""

    patch: Patch
    is_fault: bool
    around: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
    """What each of its adapters is wrapped in."""
    root: Path | None = None
    """A repository that is examined instead of the patched implementation."""

    @property
    def title(self) -> str:
        return self.patch.title

    @property
    def problem(self) -> str:
        return self.patch.kind

    @property
    def problems(self) -> tuple[str]:
        return (self.patch.kind,)

    @property
    def diagnosis(self) -> list[str]:
        """Words of the explanations that are right, one of which should be given; []: no name."""
        return self.patch.more


def load() -> list[Case]:
    """Return all faults and all honest variants, each implementation as it is among them."""
    faults = [patch for file in sorted(HERE.glob("faults/*.txt")) for patch in read(file)]
    honest = [patch for file in sorted(HERE.glob("honest/*.txt")) for patch in read(file)]
    honest += [Patch(problem, "as it is", style) for problem in RUBRIC for style in STYLES]
    return [Case(p, is_fault=True) for p in faults] + [Case(p, is_fault=False) for p in honest]


def chosen(only: Sequence[str] = (), problems: Sequence[str] = ()) -> list[Case]:
    """The cases of these problems with these titles or parts of a title; nothing given: all."""
    cases = load()
    titles = {case.title for case in cases}

    def is_meant(text: str, title: str) -> bool:
        return text == title if text in titles else text in title

    return [
        case
        for case in cases
        if (not problems or case.problem in problems)
        and (not only or any(is_meant(text, case.title) for text in only))
    ]
