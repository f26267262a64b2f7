"""Run the items of each limit's problem, and of those built from it: what does the limit cost?"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from faults.run import Failure, failures_of, naming, problems_of, run_each, share_lost
from planted.measure import write_repository
from planted.plantings import Planting, read
from points import claim_of
from report import RUBRIC, foundations

FILES = ("limits.txt", "limits_text.txt")


@dataclass(frozen=True)
class Limit:
    """One right implementation that stops at one difficulty."""

    planting: Planting
    problem: str
    claim: str
    most: Fraction
    """The share of a problem's points that it may cost; 0 where nothing may fail."""
    words: str
    """What a message has to say."""
    is_alone: bool = False
    """Whether only the items of its own problem are run."""

    @classmethod
    def of(cls, planting: Planting) -> "Limit":
        claim, most, words = planting.more
        if claim not in RUBRIC[planting.problem]["claims"]:
            raise ValueError(f"{planting.title}: {planting.problem} has no claim {claim!r}")
        return cls(planting, planting.problem, claim, Fraction(most), words)

    @property
    def title(self) -> str:
        return f"{self.problem}: {self.planting.name}"

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
    """Whether it was named "rightly", "wrongly" or "not"."""
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
        Limit.of(planting)
        for file in FILES
        if (folder / file).exists()
        for planting in read(folder / file, "reference")
    ]


def examine(limits: Sequence[Limit], jobs: int, on_cost: Callable[[Cost], None]) -> None:
    """Examine every limit; costs come in the order of their end."""

    def take(
        limit: Limit, items: Sequence[pytest.Item], rows: list[dict[str, Any]], error: str
    ) -> None:
        on_cost(cost_of(limit, items, [Failure(**row) for row in rows], error))

    run_each(limits, 0, jobs, failures_of, take, prepare)


def prepare(limit: Limit, place: Path, config: pytest.Config) -> None:
    """Let the items examine a repository with the limit in it."""
    write_repository(limit.planting, place)
    config.option.submission = place
    for name in [name for name in sys.modules if name.partition(".")[0] == "cs_basics"]:
        del sys.modules[name]


def cost_of(
    limit: Limit, items: Sequence[pytest.Item], failures: list[Failure], error: str
) -> Cost:
    problem_of = {item.nodeid: next(problems_of(item)) for item in items}
    inside, outside = [], []
    for failure in failures:
        claim = claim_of(RUBRIC[problem_of[failure.item]], failure.item)
        (inside if claim == limit.claim else outside).append(failure.item)
    lost = {problem: share for problem, share in shares_lost(items, failures) if share}
    how = naming(failures, (limit.words,))
    return Cost(limit, inside, outside, lost, how, failures, error)


def shares_lost(
    items: Sequence[pytest.Item], failures: Sequence[Failure]
) -> Iterator[tuple[str, float]]:
    for problem in dict.fromkeys(next(problems_of(item)) for item in items):
        own = [item for item in items if problem in problems_of(item)]
        yield problem, share_lost(problem, own, failures)
