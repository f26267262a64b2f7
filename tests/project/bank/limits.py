"""Run the items of each limit's problem, and of those built from it: what does the limit cost?"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from points import claim_of, points
from report import RUBRIC, foundations

from bank.patches import Patch, read, write_repository
from bank.run import Failure, examine_repository, failures_of, naming, problems_of, run_each

FILES = ("limits.txt", "limits_text.txt")


@dataclass(frozen=True)
class Limit:
    """One right implementation that stops at one difficulty."""

    patch: Patch
    problem: str
    claim: str
    most: Fraction
    """The share of a problem's points that it may cost; 0 where nothing may fail."""
    words: str
    """What a message has to say."""
    is_alone: bool = False
    """Whether only the items of its own problem are run."""

    @classmethod
    def of(cls, patch: Patch) -> "Limit":
        claim, most, words = patch.more
        if claim not in RUBRIC[patch.kind]["claims"]:
            raise ValueError(f"{patch.title}: {patch.kind} has no claim {claim!r}")
        return cls(patch, patch.kind, claim, Fraction(most), words)

    @property
    def title(self) -> str:
        return self.patch.title

    @property
    def problems(self) -> list[str]:
        if self.is_alone:
            return [self.problem]
        return [one for one in RUBRIC if self.problem in {one, *foundations(one)}]


@dataclass(frozen=True)
class Cost:
    """What the examination made of one limit."""

    limit: Limit
    inside: list[str]
    """Failed items of the limit's claim."""
    outside: list[str]
    """Failed items of other claims."""
    lost: dict[str, float]
    """The share of each problem's points."""
    naming: str
    """Whether it was named "rightly", "wrongly" or "not" by the items of its own problem."""
    failures: list[Failure]
    error: str = ""
    """Why there is no verdict: the child hung or died."""

    @property
    def complaints(self) -> list[str]:
        """What is wrong with the examination; nothing, if one cause has one cost."""
        most = float(self.limit.most) + 1e-9
        dear = [f"{problem} loses {lost:.1%}" for problem, lost in self.lost.items() if lost > most]
        silent = [
            *([] if self.inside else ["no item of its claim fails"]),
            *([f"named {self.naming}"] if self.naming != "rightly" else []),
        ]
        return [
            *([self.error] if self.error else silent if self.limit.most else []),
            *(f"fails {item}" for item in self.outside),
            *dear,
        ]


def load() -> list[Limit]:
    folder = Path(__file__).parent
    return [
        Limit.of(patch)
        for file in FILES
        if (folder / file).exists()
        for patch in read(folder / file)
    ]


def examine(limits: Sequence[Limit], jobs: int, on_cost: Callable[[Cost], None]) -> None:
    """Examine every limit; costs come in the order of their end."""

    def take(
        limit: Limit, items: Sequence[pytest.Item], rows: list[dict[str, Any]], error: str
    ) -> None:
        on_cost(cost_of(limit, items, [Failure(**row) for row in rows], error))

    def prepare(limit: Limit, place: Path, config: pytest.Config) -> None:
        examine_repository(write_repository(limit.patch, place), config)

    run_each(limits, 0, jobs, failures_of, take, prepare)


def cost_of(
    limit: Limit, items: Sequence[pytest.Item], failures: list[Failure], error: str
) -> Cost:
    problem_of = {item.nodeid: next(problems_of(item)) for item in items}
    inside, outside = [], []
    for failure in failures:
        claim = claim_of(RUBRIC[problem_of[failure.item]], failure.item)
        (inside if claim == limit.claim else outside).append(failure.item)
    lost = {problem: share for problem, share in shares_lost(items, failures) if share > 1e-9}
    own = [failure for failure in failures if problem_of[failure.item] == limit.problem]
    how = naming(own, (limit.words,))
    return Cost(limit, inside, outside, lost, how, failures, error)


def shares_lost(
    items: Sequence[pytest.Item], failures: Sequence[Failure]
) -> Iterator[tuple[str, float]]:
    """What failures cost each problem, trivial items counted like others: one cause is judged."""
    wrong = {failure.item for failure in failures}
    outcomes: dict[str, list[tuple[str, str]]] = {}
    for item in items:
        outcome = "failed" if item.nodeid in wrong else "passed"
        outcomes.setdefault(next(problems_of(item)), []).append((item.nodeid, outcome))
    for problem, some in outcomes.items():
        entry = RUBRIC[problem]
        yield problem, 1 - points(entry, some, ()) / entry["points"]
