"""The class at a glance: how scores spread, and one table of common mistakes and of everyone."""

import dataclasses
import re
import statistics
import urllib.parse
from collections import Counter
from collections.abc import Mapping, Sequence

from cs_grader.result import Result
from cs_grader.results import reading
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
    """What several got wrong."""

    problem: str
    words: str
    made_by: Sequence[str]
    """Names of submissions."""


def class_page(
    results: Sequence[Result],
    faults: Mapping[str, str] | None = None,
    about: Sequence[str] = (),
) -> str:
    """Return the page; it links the page of each submission, in a folder of its name.

    Args:
        results: What came of each submission.
        faults: Why a submission has no result, by its name.
        about: Lines about the class.
    """
    everyone = sorted(results, key=natural_order)
    mistakes = find_mistakes(everyone)
    scores = [result.total for result in everyone]
    rows = [(r, marks_of(r), {p.problem: p for p in r.problems}) for r in everyone]
    return render(
        "class_page.html",
        rows=rows,
        num_marked=Counter(mark for _, marks, _ in rows for mark in marks),
        problems=problems_of(everyone),
        num_right=Counter(p.problem for r in everyone for p in r.problems if reading.is_right(p)),
        num_untouched=Counter(
            p.problem for r in everyone for p in r.problems if not p.passed + p.failed
        ),
        mistakes=mistakes[:MAX_MISTAKES],
        num_left=max(len(mistakes) - MAX_MISTAKES, 0),
        bins=_bins(everyone),
        possible=max((result.max_score for result in everyone), default=0.0),
        median=statistics.median(scores or [0.0]),
        mean=statistics.fmean(scores or [0.0]),
        num_without=sum(not any(p.passed for p in result.problems) for result in everyone),
        isolations=Counter(result.isolation for result in everyone),
        faults=sorted((faults or {}).items()),
        about=about,
        menu=MARKS,
        max_findings=MAX_FINDINGS,
        link=link,
    )


def find_mistakes(results: Sequence[Result]) -> list[Mistake]:
    """Name every mistake that was made, and who made it, the most common first.

    Where the examination has no name for a failure, the check that most fail stands for it.
    """
    made: dict[tuple[str, str], list[str]] = {}
    unnamed: dict[str, Counter[str]] = {}
    failing: dict[tuple[str, str], list[str]] = {}
    for result in results:
        found: set[tuple[str, str]] = set()
        everywhere = {item.item for group in reading.everywhere(result) for item in group}
        for item in reading.failures(result):
            if item.item in everywhere:
                continue
            if item.diagnosis:
                found.add((item.problem, reading.words(item.diagnosis)))
            elif not item.is_hidden:
                name = reading.name(item)
                unnamed.setdefault(item.problem, Counter())[name] += 1
                failing.setdefault((item.problem, name), []).append(result.submission)
        for key in found:
            made.setdefault(key, []).append(result.submission)
    for problem, checks in unnamed.items():
        check, num = checks.most_common(1)[0]
        if num > 1:
            made[problem, f"{check} fails, for no reason that has a name"] = failing[problem, check]
    mistakes = [Mistake(*key, who) for key, who in made.items()]
    return sorted(mistakes, key=lambda one: (-len(one.made_by), one.problem, one.words))


def marks_of(result: Result) -> list[str]:
    """What sets a submission apart: keys of MARKS."""
    needs_review = {finding.rule == reading.NEEDS_REVIEW for finding in result.policy}
    is_full = bool(result.problems) and all(map(reading.is_right, result.problems))
    has = {
        "review": True in needs_review,
        "forbidden": False in needs_review,
        "note": reading.remark(result),
        "full": is_full,
    }
    return [mark for mark in MARKS if has[mark]]


def _bins(results: Sequence[Result]) -> list[int]:
    """How many scores lie in each tenth of the points possible."""
    bins = [0] * NUM_BINS
    for result in results:
        share = result.total / result.max_score if result.max_score else 0.0
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
