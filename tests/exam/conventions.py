"""An item that failed is asked once more by the handout's rule, where a class has another one."""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from oracles import CHOSEN
from report import RUBRIC


def asked_by_the_handout(row: Mapping[str, Any], ask: Callable[[], str]) -> dict[str, Any]:
    """Return what is new of a failed item if it passes without some conventions of the class.

    Args:
        row: What became of it.
        ask: Asks it again and returns the outcome.

    Returns:
        Fields of its row, "missed" among them: the fewest conventions without which it passes.
        Empty if there are none.
    """
    solved = {row["problem"], *foundations(row["problem"])}
    known = [name for name in sorted(CHOSEN) if owner(name) in solved]
    for missed in subsets(known):
        with without(missed):
            is_missed = ask() == "passed"
        if is_missed:
            pages = " and ".join(f"docs/contract/{name}.md" for name in missed)
            said = f"This is right by the handout, but this class has another rule: {pages}."
            return {
                "missed": list(missed),
                "diagnosis": f"missed-rule-of-this-class-{'-'.join(missed)}",
                "message": f"{row['message']}\n  {said}",
            }
    return {}


def subsets(names: Collection[str]) -> Iterator[tuple[str, ...]]:
    """Some of the names or all, the fewest first."""
    for number in range(1, len(names) + 1):
        yield from itertools.combinations(sorted(names), number)


@contextmanager
def without(missed: Collection[str]) -> Iterator[None]:
    """Let the oracles answer without some conventions of the class."""
    CHOSEN.difference_update(missed)
    try:
        yield
    finally:
        CHOSEN.update(missed)


def owner(convention: str) -> str:
    """The problem whose section of the handout a convention changes."""
    return next(name for name, entry in RUBRIC.items() if entry.get("convention") == convention)


def foundations(problem: str) -> set[str]:
    """Every problem that this one is built from, at any depth."""
    below = set(RUBRIC[problem]["needs"])
    return below.union(*map(foundations, below))
