"""What the examination made of a case, and whether that is what it should make of it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from compare import EXPLANATION
from points import claim_of, points
from report import RUBRIC

from bank.cases import Case

# How the examination introduces what a failure hangs on, beside the mistake that an answer fits.
CONTROL = "The same call"


@dataclass(frozen=True)
class Result:
    """What the examination made of one case."""

    case: Case
    seed: int
    rows: list[dict[str, Any]]
    """Of each item, as in the report of the examination."""
    error: str = ""
    """Why there is no verdict: the child hung or died."""

    @property
    def failures(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["outcome"] != "passed"]

    @property
    def is_right(self) -> bool:
        """Whether a fault was caught, a variant accepted, or a limit charged what it may cost."""
        if self.case.kind == "limits":
            return not self.complaints
        return not self.error and bool(self.failures) == self.case.is_fault

    @property
    def naming(self) -> str:
        """Whether the items of its own problem named it "rightly", "wrongly" or "not"."""
        own = [one["message"] for one in self.failures if one["problem"] == self.case.problem]
        return naming(own, self.case.diagnosis)

    @property
    def complaints(self) -> list[str]:
        """What is wrong with the examination of a limit; nothing, if one cause has one cost."""
        if self.error:
            return [self.error]
        allowed, most = self.case.patch.more[0], Fraction(self.case.patch.more[1])
        claims = [claim_of(RUBRIC[one["problem"]], one["item"]) for one in self.failures]
        found = [
            f"fails {one['item']}"
            for one, claim in zip(self.failures, claims, strict=True)
            if claim != allowed
        ]
        found += [
            f"{problem} loses {lost:.1%}" for problem, lost in self.lost() if lost > most + 1e-9
        ]
        if most and allowed not in claims:
            found.append("no item of its claim fails")
        if most and self.naming != "rightly":
            found.append(f"named {self.naming}")
        return found

    def lost(self) -> Iterator[tuple[str, float]]:
        """The share of each problem's points that is lost.

        Trivial items count like others: one cause is judged.
        """
        for problem in {row["problem"]: None for row in self.rows}:
            outcomes = [(r["item"], r["outcome"]) for r in self.rows if r["problem"] == problem]
            yield problem, 1 - points(RUBRIC[problem], outcomes, ()) / RUBRIC[problem]["points"]


def naming(messages: Sequence[str], diagnosis: Sequence[str]) -> str:
    """Judge every name that is given: one that is wrong is worse than none.

    Words with " & " between them are those of several mistakes, all of which have to be named.
    """
    wanted = [words.split(" & ") for words in diagnosis]
    messages = [" ".join(message.split()) for message in messages]
    names = [
        name for message in messages for name in re.split(f"{EXPLANATION}|{CONTROL}", message)[1:]
    ]
    if not all(any(word in name for words in wanted for word in words) for name in names):
        return "wrongly"
    told = "\n".join(messages)
    return "rightly" if any(all(word in told for word in words) for words in wanted) else "not"
