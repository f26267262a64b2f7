"""The points of a problem: claims earn them, not items.

Many items may examine one claim, and then one mistake fails all of them. So a claim that the
rubric lists for a problem has a share of its points, however many items it has; all other items
together are the problem's main claim, which has the rest. The grader loads this file, too.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

MAIN = "main"


def claim_of(entry: Mapping[str, Any], item: str) -> str:
    """Name the claim that an item examines: the first whose patterns it contains."""
    for claim, listed in entry.get("claims", {}).items():
        if any(pattern in item for pattern in listed["items"]):
            return claim
    return MAIN


def points(
    entry: Mapping[str, Any], outcomes: Iterable[tuple[str, str]], trivial: Collection[str]
) -> float:
    """Return what a problem earns.

    Args:
        entry: The problem's entry in the rubric.
        outcomes: The node id of each of its items, and what became of it.
        trivial: Items that zeros pass; whoever passes no others has not solved anything.
    """
    outcomes = list(outcomes)
    if not any(outcome == "passed" and item not in trivial for item, outcome in outcomes):
        return 0.0
    passed: dict[str, list[bool]] = {}
    for item, outcome in outcomes:
        passed.setdefault(claim_of(entry, item), []).append(outcome == "passed")
    shares = {name: listed["share"] for name, listed in entry.get("claims", {}).items()}
    shares[MAIN] = 1 - sum(shares.values())
    present = sum(shares[name] for name in passed)
    earned = sum(shares[name] * sum(held) / len(held) for name, held in passed.items())
    return entry["points"] * earned / present
