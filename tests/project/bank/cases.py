"""What the examination is tried on: a change of an implementation, and what should come of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from report import RUBRIC, foundations

from bank.patches import STYLES, Patch, read


@dataclass(frozen=True)
class Case:
    """One implementation that the examination is tried on."""

    patch: Patch
    kind: str
    """The folder that it is written in: "faults", "honest" or "limits"."""
    is_alone: bool = False
    """Whether a limit is tried on its own problem only, not on those that are built from it."""

    @property
    def title(self) -> str:
        return self.patch.title

    @property
    def problem(self) -> str:
        return self.patch.kind

    @property
    def problems(self) -> set[str]:
        """Those whose items are run."""
        if self.kind != "limits" or self.is_alone:
            return {self.problem}
        return {one for one in RUBRIC if self.problem in {one, *foundations(one)}}

    @property
    def is_fault(self) -> bool:
        return self.kind == "faults"

    @property
    def diagnosis(self) -> list[str]:
        """Words of the explanations that are right, one of which should be given; []: no name."""
        return self.patch.more[2:] if self.kind == "limits" else self.patch.more


def load(*kinds: str) -> list[Case]:
    """Return the cases of these kinds; none given, faults and honest variants.

    Each implementation as it is is an honest variant.
    """
    return [
        Case(patch, kind)
        for kind in kinds or ("faults", "honest")
        for patch in [
            *(
                one
                for file in sorted(Path(__file__).parent.glob(f"{kind}/*.txt"))
                for one in read(file)
            ),
            *(Patch(p, "as it is", s) for p in RUBRIC for s in STYLES if kind == "honest"),
        ]
    ]


def chosen(
    only: Sequence[str] = (), problems: Sequence[str] = (), kinds: Sequence[str] = ()
) -> list[Case]:
    """The cases of these problems with these titles or parts of a title; nothing given: all."""
    cases = load(*kinds)
    titles = {case.title for case in cases}

    def is_meant(text: str, title: str) -> bool:
        return text == title if text in titles else text in title

    return [
        case
        for case in cases
        if (not problems or case.problem in problems)
        and (not only or any(is_meant(text, case.title) for text in only))
    ]
