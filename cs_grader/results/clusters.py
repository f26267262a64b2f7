"""Finds submissions that fail in the same way without a diagnosis that explains it.

A submission's failures in a problem are compared with those of every other. Two have the same
mistake if they give the same wrong answers, up to rounding, to at least half of the public items
that either fails. Whoever has a mistake in common with a member of a cluster belongs to it.
"""

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from cs_grader.result import Fingerprint, Item, Result

SHARE = 0.5
"""Of the items that either of two submissions fails, how many they have to answer alike."""
ALLOWED = 1.0
"""By how much two sketches may differ: the error that the examination allows."""
RELATIVE = 0.01
"""The same in relation to the error itself: rounding grows with what is rounded."""

Failures = Mapping[str, Item]
"""The items of a problem that a submission fails, by name."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """Submissions that answer alike in a problem."""

    problem: str
    members: tuple[str, ...]
    """Names of the submissions, in the order in which they were given."""
    num_items: int
    """How many items the first of them fails."""
    example: Item
    """Of the items that most of them answer alike, the one with the smallest input."""


def find_clusters(results: Sequence[Result]) -> list[Cluster]:
    """Find who answers alike, the largest clusters first; somebody unlike all others is one, too.

    The order of the results decides which comes first among equals, and nothing else.
    """
    units: dict[str, dict[str, Failures]] = defaultdict(dict)
    for result in results:
        for problem, failures in unexplained(result).items():
            units[problem][result.submission] = failures
    found = [
        _cluster(problem, [names[place] for place in places], [failures[p] for p in places])
        for problem, by_name in units.items()
        for names, failures in [(list(by_name), list(by_name.values()))]
        for places in _components(_alike(failures))
    ]
    return sorted(found, key=lambda cluster: -len(cluster.members))


def unexplained(result: Result) -> dict[str, Failures]:
    """The failures of each problem in which no failure has a diagnosis.

    Where one has, the student knows what to repair first; other reasons show after that.
    """
    wrong = [item for item in result.items if item.outcome in ("failed", "error")]
    explained = {item.problem for item in wrong if item.diagnosis}
    failures: dict[str, dict[str, Item]] = defaultdict(dict)
    for item in wrong:
        if item.problem not in explained and item.fingerprint is not None:
            failures[item.problem][item.item] = item
    return dict(failures)


def _alike(units: Sequence[Failures]) -> npt.NDArray[np.bool_]:
    """Return for each two submissions whether they have the same mistake."""
    names = sorted({name for unit in units for name in unit})
    place = {name: number for number, name in enumerate(names)}
    forms: dict[str, int] = {}
    # Form 0 stands for an item that was not failed.
    form = np.zeros((len(units), len(names)), np.int32)
    longest = max(len(taken.sketch) for unit in units for taken in _fingerprints(unit))
    sketch = np.zeros((len(units), len(names), longest))
    for number, unit in enumerate(units):
        for name, item in unit.items():
            taken = item.fingerprint
            if taken is not None:
                form[number, place[name]] = forms.setdefault(taken.form, len(forms) + 1)
                sketch[number, place[name], : len(taken.sketch)] = taken.sketch
    alike = np.zeros((len(units), len(units)), np.bool_)
    for number in range(len(units)):
        allowed = ALLOWED + RELATIVE * np.maximum(np.abs(sketch), np.abs(sketch[number]))
        is_same = (form == form[number]) & np.all(np.abs(sketch - sketch[number]) <= allowed, -1)
        is_failed = (form > 0) | (form[number] > 0)
        num_same = np.sum(is_same & (form > 0), -1)
        alike[number] = num_same >= SHARE * np.sum(is_failed, -1)
    return alike


def _fingerprints(unit: Failures) -> Iterator[Fingerprint]:
    return (item.fingerprint for item in unit.values() if item.fingerprint is not None)


def _components(alike: npt.NDArray[np.bool_]) -> Iterator[list[int]]:
    """The connected components of this relation, each in order."""
    left = dict.fromkeys(range(len(alike)))
    while left:
        waiting = [next(iter(left))]
        found: set[int] = set()
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                del left[one]
                waiting += [int(other) for other in np.flatnonzero(alike[one]) if other in left]
        yield sorted(found)


def _cluster(problem: str, names: Sequence[str], units: Sequence[Failures]) -> Cluster:
    counts = Counter(name for unit in units for name in unit)
    usual = [item for item in units[0].values() if counts[item.item] == max(counts.values())]
    example = min(usual or units[0].values(), key=_size)
    return Cluster(problem=problem, members=tuple(names), num_items=len(units[0]), example=example)


def _size(item: Item) -> tuple[float, str]:
    # An item that did not get to a probe has no input to show.
    taken = item.fingerprint
    return taken.size if taken and taken.asked else math.inf, item.item
