"""A class made of the fault bank, some of whose diagnoses are hidden: are the mistakes found again?

Each of the class has a hand of their own: what they compute differs from what others with the same
mistake compute in the last bit of each number, as if it had been summed in another order. Whom the
grader's class page puts together is compared with who really made the same mistake.
"""

import dataclasses
import functools
import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from bank import run
from bank.cases import Case
from cs_grader.result import Fingerprint, Item
from cs_grader.results.clusters import find_clusters

MOST_OTHERS = 20
# Rows are looked up: whoever is right is right in every bit.
NEVER_ROUNDED = ("embedding",)
Work = tuple[str, int]
"""The title of a case, and the hand that wrote it."""
Rows = Mapping[Work, list[dict[str, Any]]]


@dataclasses.dataclass(frozen=True)
class Classroom:
    """Who hands in what."""

    works: Mapping[str, Mapping[str, Work]]
    """Of each submission, by problem; a problem that is not named is the reference."""
    cases: Mapping[str, Case]
    hidden: frozenset[str]
    """Titles of the faults whose diagnoses are hidden."""


@dataclasses.dataclass(frozen=True)
class Score:
    """How well who belongs together was put together."""

    submissions: int
    mistakes: int
    """Hidden faults that anybody made."""
    works: int
    """Solutions with one of them."""
    clusters: int
    """Groups of two or more."""
    adjusted_rand: float
    purity: float
    """The share of works in groups that have the mistake of the most in their group."""
    honest_inside: int
    """Solutions without a fault in a group."""

    def __str__(self) -> str:
        return (
            f"{self.submissions} submissions, {self.mistakes} hidden mistakes in {self.works}"
            f" solutions: {self.clusters} groups, adjusted Rand index {self.adjusted_rand:.3f},"
            f" purity {self.purity:.3f}, {self.honest_inside} honest solutions inside a group"
        )


def seat(
    cases: Sequence[Case], size: int, num_hidden: int, hands: int, chance: random.Random
) -> Classroom:
    """Let everyone hand in one mistake to be hidden, or none, and what else there is in a class.

    Args:
        cases: Of the bank.
        size: How many hand something in.
        num_hidden: How many faults have their diagnoses hidden.
        hands: How many ways there are to write the same.
        chance: What is drawn from.
    """
    faults = apart([case for case in cases if case.is_fault])
    honest = some([case for case in cases if not case.is_fault], chance)
    hidden = chance.sample(faults, num_hidden)
    others = some([case for case in faults if case not in hidden], chance)
    # Each is made twice; of the rest, as in a class, a few by many and many by a few.
    common = [1 / (place + 2) for place in range(num_hidden)]
    waiting = 2 * hidden
    works: dict[str, dict[str, Work]] = {}
    for number in range(size):
        chosen = [chance.choice(honest), chance.choice(honest)]
        chosen += chance.sample(others, min(len(others), chance.choice([0, 0, 1])))
        # The last one stays, where two are of the same problem.
        if number % 4:
            chosen.append(waiting.pop() if waiting else chance.choices(hidden, common)[0])
        works[f"student-{number}"] = {
            case.problem: (case.title, chance.randrange(hands) if case in hidden else 0)
            for case in chosen
        }
    return Classroom(
        works, {case.title: case for case in cases}, frozenset(c.title for c in hidden)
    )


def apart(faults: Sequence[Case]) -> list[Case]:
    """Leave out whoever is named like another: it is the same mistake in another style."""
    kept: list[Case] = []
    for case in faults:
        others = (word for one in kept if one.problem == case.problem for word in one.diagnosis)
        if not any(word in own or own in word for word in others for own in case.diagnosis):
            kept.append(case)
    return kept


def some(cases: list[Case], chance: random.Random) -> list[Case]:
    """As many as a class may know beside the hidden mistakes, and no more: each takes seconds."""
    return chance.sample(cases, min(len(cases), MOST_OTHERS))


def examine(classroom: Classroom, jobs: int, on_work: Callable[[int], None]) -> Rows:
    """Run the items of every work that anybody hands in.

    Raises:
        RuntimeError: The examination does not run, or a work hangs.
    """
    works = sorted({work for chosen in classroom.works.values() for work in chosen.values()})
    written = {
        id(case): case for case in (by_hand(classroom.cases[title], hand) for title, hand in works)
    }
    works_of = dict(zip(written, works, strict=True))
    found = run.examine(list(written.values()), 0, jobs, lambda _: on_work(len(works)))
    for result in found:
        if result.error:
            raise RuntimeError(f"{result.case.title}: {result.error}")
    return {works_of[id(result.case)]: result.rows for result in found}


def by_hand(case: Case, hand: int) -> Case:
    """The same case with roundings of its own."""
    if case.problem in NEVER_ROUNDED:
        return dataclasses.replace(case)
    return dataclasses.replace(case, around=functools.partial(rounded, hand))


def rounded(hand: int, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        answer = function(*args, **kwargs)
        is_wide = isinstance(answer, torch.Tensor) and answer.dtype in (
            torch.float32,
            torch.float64,
        )
        if not is_wide or answer.device.type != "cpu":
            return answer
        generator = torch.Generator().manual_seed(hand)
        steps = torch.randint(-1, 2, answer.shape, generator=generator)
        return answer * (1 + steps * torch.finfo(answer.dtype).eps)

    return call


def results(classroom: Classroom, rows: Rows) -> list[Any]:
    """What the grader would know of each that clusters are made of, without hidden diagnoses."""
    hidden = {
        (row["problem"], row["diagnosis"])
        for (title, _), found in rows.items()
        if title in classroom.hidden
        for row in found
    }
    return [
        SimpleNamespace(
            submission=name,
            items=[item_of(row, hidden) for work in works.values() for row in rows[work]],
        )
        for name, works in classroom.works.items()
    ]


def item_of(row: dict[str, Any], hidden: set[tuple[str, str | None]]) -> Item:
    told = {"diagnosis": None} if (row["problem"], row["diagnosis"]) in hidden else {}
    taken = Fingerprint(**row["fingerprint"]) if "fingerprint" in row else None
    return Item(**{**row, **told, "is_hidden": False, "seconds": 0.0, "fingerprint": taken})


def score(classroom: Classroom, found: Sequence[Any]) -> Score:
    """Compare who is put together with who made the same mistake."""
    group: dict[tuple[str, str], str] = {}
    shared: list[list[tuple[str, str]]] = []
    for number, cluster in enumerate(find_clusters(found)):
        members = [(member, cluster.problem) for member in cluster.members]
        group |= dict.fromkeys(members, f"group {number}")
        shared += [members] if len(members) > 1 else []
    made = {
        (name, problem): title
        for name, works in classroom.works.items()
        for problem, (title, _) in works.items()
    }
    wrong = [work for work, title in made.items() if title in classroom.hidden]
    # Who is in no group is alone.
    compared = sorted({*wrong, *group})
    right = {work for work, title in made.items() if not classroom.cases[title].is_fault}
    right |= {work for members in shared for work in members if work not in made}
    most = [max(Counter(made.get(work) for work in members).values()) for members in shared]
    return Score(
        submissions=len(found),
        mistakes=len({made[work] for work in wrong}),
        works=len(wrong),
        clusters=len(shared),
        adjusted_rand=adjusted_rand(
            [made.get(work, "honest") for work in compared],
            [group.get(work, f"alone {work}") for work in compared],
        ),
        purity=sum(most) / max(sum(map(len, shared)), 1),
        honest_inside=sum(work in right for members in shared for work in members),
    )


def adjusted_rand(first: Sequence[str], second: Sequence[str]) -> float:
    """How far two partitions agree: 1 if they are the same, about 0 if by chance.

    Hubert and Arabie 1985, equation 5: agreeing pairs, less those expected of random partitions.
    """

    def pairs(labels: Sequence[Any]) -> int:
        return sum(math.comb(count, 2) for count in Counter(labels).values())

    both, of_first, of_second = (
        pairs(list(zip(first, second, strict=True))),
        pairs(first),
        pairs(second),
    )
    expected = of_first * of_second / max(math.comb(len(first), 2), 1)
    most = (of_first + of_second) / 2
    return 1.0 if most == expected else (both - expected) / (most - expected)
