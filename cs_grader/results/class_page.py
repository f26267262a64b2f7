"""The class at a glance: how scores spread, and one table of common mistakes and of everyone."""

import dataclasses
import re
import statistics
import urllib.parse
from collections import Counter
from collections.abc import Mapping, Sequence

from cs_grader.result import Excerpt, Result
from cs_grader.results import reading
from cs_grader.results.cluster_names import FILE, Named
from cs_grader.results.clusters import Cluster
from cs_grader.results.gradebook import problems_of
from cs_grader.results.page import render

NUM_BINS = 10
MAX_MISTAKES = 40
MAX_FINDINGS = 20
MARKS = {
    "review": "needs review",
    "forbidden": "forbidden operator used",
    "note": "with a note",
    "full": "everything right",
}
"""What the menu "Show" offers."""


@dataclasses.dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake that the examination or the instructor knows, or a cluster without a name."""

    problem: str
    words: str
    """What it is; "" if nobody knows."""
    made_by: Sequence[str]
    """Names of submissions."""
    cluster: Cluster | None
    """How they answer, where the examination has no name for it."""
    hint: str
    sources: list[tuple[str, Excerpt]]
    """How each of them has written the problem."""


def class_page(
    results: Sequence[Result],
    faults: Mapping[str, str] | None = None,
    clusters: Sequence[Named] = (),
    unused: Sequence[str] = (),
) -> str:
    """Return the page; it links the page of each submission, in a folder of its name.

    Args:
        results: What came of each submission.
        faults: Why a submission has no result, by its name.
        clusters: Who answers alike, and what the instructor calls it.
        unused: A line for each name that fits no cluster.
    """
    everyone = sorted(results, key=natural_order)
    mistakes = find_mistakes(everyone, clusters)
    scores = [result.score for result in everyone]
    rows = [(r, marks_of(r), {p.problem: p for p in r.problems}) for r in everyone]
    return render(
        "class_page.html",
        rows=rows,
        num_marked=Counter(mark for _, marks, _ in rows for mark in marks),
        problems=problems_of(everyone),
        num_right=Counter(p.problem for r in everyone for p in r.problems if reading.is_right(p)),
        mistakes=mistakes[:MAX_MISTAKES],
        num_left=max(len(mistakes) - MAX_MISTAKES, 0),
        bins=_bins(everyone),
        possible=max((result.max_score for result in everyone), default=0.0),
        median=statistics.median(scores or [0.0]),
        mean=statistics.fmean(scores or [0.0]),
        tiers=Counter(result.isolation for result in everyone),
        faults=sorted((faults or {}).items()),
        unused=unused,
        menu=MARKS,
        max_findings=MAX_FINDINGS,
        file=FILE,
        link=link,
    )


def find_mistakes(results: Sequence[Result], clusters: Sequence[Named]) -> list[Mistake]:
    """Name every mistake that was made, and who made it, the most common first.

    A cluster of one without a name is somebody who is wrong in a way of their own: no mistake.
    """
    made: dict[tuple[str, str], list[str]] = {}
    for result in results:
        wrong = [item for item in result.items if item.outcome != "passed" and item.diagnosis]
        for key in {(item.problem, reading.words(item.diagnosis or "")) for item in wrong}:
            made.setdefault(key, []).append(result.submission)
    named: dict[tuple[str, str], tuple[Cluster | None, str]] = {
        (cluster.problem, reading.words(name.name)): (cluster, name.hint)
        for cluster, name in clusters
        if name
    }
    found: list[tuple[str, str, Sequence[str], Cluster | None, str]] = [
        (problem, words, who, *named.get((problem, words), (None, "")))
        for (problem, words), who in made.items()
    ]
    found += [
        (cluster.problem, "", cluster.members, cluster, "")
        for cluster, name in clusters
        if name is None and len(cluster.members) > 1
    ]
    sources = {result.submission: result.sources for result in results}
    mistakes = [
        Mistake(
            *(problem, words, who, cluster, hint),
            [(name, each) for name in who for each in sources[name] if each.problem == problem],
        )
        for problem, words, who, cluster, hint in found
    ]
    return sorted(mistakes, key=lambda one: (-len(one.made_by), one.problem, one.words))


def marks_of(result: Result) -> list[str]:
    """What sets a submission apart: keys of MARKS."""
    needs_review = {finding.rule == reading.NEEDS_REVIEW for finding in result.policy}
    is_full = bool(result.problems) and all(map(reading.is_right, result.problems))
    has = {
        "review": True in needs_review,
        "forbidden": False in needs_review,
        "note": result.note,
        "full": is_full,
    }
    return [mark for mark in MARKS if has[mark]]


def _bins(results: Sequence[Result]) -> list[int]:
    """How many scores lie in each tenth of the points possible."""
    bins = [0] * NUM_BINS
    for result in results:
        share = result.score / result.max_score if result.max_score else 0.0
        bins[min(max(int(share * NUM_BINS + 1e-9), 0), NUM_BINS - 1)] += 1
    return bins


def link(submission: str, page_name: str) -> str:
    """The address of a page of a submission, in the folder of its name."""
    # The dot keeps a name such as "javascript:x" from being taken for another scheme.
    folder = urllib.parse.quote(submission, safe="", errors="replace")
    return f"./{folder}/{page_name}.html"


def natural_order(result: Result) -> list[tuple[int, str]]:
    """A key that sorts student-9 before student-10."""
    parts = re.split(r"([0-9]{1,18})", result.submission.lower())
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
