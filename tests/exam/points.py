"""Points, from all rows at once: the student's report and the grader count by this file.

Claims earn the points of a problem, not items. Many items may examine one claim, and then one
mistake fails all of them. So a claim that the rubric lists has a share of the points, however many
items it has; all other items together are the problem's main claim, which has the rest.

A forbidden operator is charged once. Whoever calls torch.softmax in attention does so in the model,
too: together these problems lose at most what softmax, the problem that the operator solves, has
earned. Whose softmax is torch.softmax, too, has lost that there, and pays nothing more.

So is a convention of the class that was overlooked (conventions.py): wherever it makes something
wrong, it costs at most a third of the problem whose section of the handout it changes.

Better work never has fewer points, and neither the order of the rows nor the number of processes
that they come from makes a difference: nothing counts but the rows.
"""

import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Any

MAIN = "main"
Row = Mapping[str, Any]
"""What became of one item.

    problem, item    its problem and its node id
    outcome          "passed", or anything else
    is_hidden        whether its inputs were hidden ones; may be missing: they were not
    borrowed         the other problems whose ready-made operators it called; may be missing: none
    with_borrowed    its outcome where these operators may be called
    missed           the conventions of the class without which it passes; may be missing: none
"""


def points_of_all(
    rubric: Mapping[str, Mapping[str, Any]], rows: Iterable[Row], trivial: Collection[str]
) -> dict[str, float]:
    """Return what each problem earns that has rows, in the rubric's order.

    Args:
        rubric: Of each problem its points, its claims, and the convention that may change it.
        rows: What became of the items. One with several rows (public inputs and hidden ones) has to
            pass in each.
        trivial: As for points.
    """
    rows = list(rows)
    found = {name: [row for row in rows if row["problem"] == name] for name in rubric}

    def earned(paid: Collection[str]) -> dict[str, float]:
        """What problems earn if others' operators may be called, or conventions be missed."""
        return {name: _earned(rubric[name], of, trivial, paid) for name, of in found.items() if of}

    alone = earned(())
    prices = {name: alone.get(name, 0) for row in rows for name in row.get("borrowed", ())}
    missed = {name for row in rows for name in row.get("missed", ())}
    owners = (entry for entry in rubric.values() if entry.get("convention") in missed)
    prices |= {entry["convention"]: entry["points"] / 3 for entry in owners}
    best, most = alone, 0.0
    for number in range(1, len(prices) + 1):
        for paid in itertools.combinations(sorted(prices), number):
            # What is paid for is given up; who never had it, or was not asked for it, pays nothing.
            lent = earned(paid) | {name: alone[name] for name in paid if name in alone}
            left = sum(lent.values()) - sum(alone.values()) - sum(prices[name] for name in paid)
            if left > most + 1e-9:
                best, most = lent, left
    gained = sum(best.values()) - sum(alone.values())
    share = most / gained if most else 0.0
    return {name: alone[name] + share * (best[name] - alone[name]) for name in alone}


def _earned(
    entry: Mapping[str, Any], rows: Iterable[Row], trivial: Collection[str], paid: Collection[str]
) -> float:
    passed: dict[str, bool] = {}
    hidden: set[str] = set()
    for row in rows:
        passed[row["item"]] = passed.get(row["item"], True) and _passes(row, {*paid})
        hidden |= {row["item"]} if row.get("is_hidden") else set()
    # Known answers pass all items whose inputs are not drawn: where some are, only those tell.
    untold = passed.keys() - hidden if hidden else set()
    outcomes = [(item, "passed" if is_right else "failed") for item, is_right in passed.items()]
    return points(entry, outcomes, {*trivial, *untold})


def _passes(row: Row, paid: set[str]) -> bool:
    missed, borrowed = row.get("missed", ()), row.get("borrowed", ())
    if missed and {*missed} <= paid:
        return True
    return row["with_borrowed" if borrowed and {*borrowed} <= paid else "outcome"] == "passed"


def points(
    entry: Mapping[str, Any], outcomes: Iterable[tuple[str, str]], trivial: Collection[str]
) -> float:
    """Return what a problem earns by itself.

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


def claim_of(entry: Mapping[str, Any], item: str) -> str:
    """Name the claim that an item examines: the first whose patterns it contains."""
    for claim, listed in entry.get("claims", {}).items():
        if any(pattern in item for pattern in listed["items"]):
            return claim
    return MAIN
