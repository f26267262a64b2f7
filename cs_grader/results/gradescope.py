"""The results.json that Gradescope reads.

https://gradescope-autograders.readthedocs.io/en/latest/specs/ has the format. Each problem is a
test with partial credit; each of its items that is not right is a test without points below it,
with a visibility of its own, and those on hidden inputs are one, which says how many were wrong.
That one is visible by default: if any test were hidden, a student could not see the total.
"""

import json
from typing import Any, Literal

from cs_grader.plain_text import one_line
from cs_grader.result import Item, Problem, Result
from cs_grader.results import reading
from cs_grader.results.reading import Reader

Visibility = Literal["visible", "hidden", "after_due_date", "after_published"]

MAX_ITEMS = 25
"""Wrong items that are shown of each problem; whoever has more of them reads on at home."""


def results_json(
    result: Result, *, hidden_items: Visibility = "visible", unfinished: str = ""
) -> str:
    """Return the text of a results.json.

    Args:
        result: What is known of the submission.
        hidden_items: Who sees how many of the items on hidden inputs were wrong.
        unfinished: While the examination goes on, what to say if this is all that comes of it.
    """
    result = reading.as_seen_by(result, Reader.STUDENT)
    tests: list[dict[str, Any]] = []
    for number, problem in enumerate(result.problems, 1):
        wrong = reading.own_failures(result, problem.problem)
        tests.append(_of_problem(result, problem, wrong, str(number)))
        tests += (
            _of_items(group, f"{number}.{place}")
            for place, group in enumerate(wrong[:MAX_ITEMS], 1)
        )
        if problem.hidden_wrong:
            tests.append(_of_hidden(problem, f"{number}.{MAX_ITEMS + 1}", hidden_items))
    results = {
        "score": _points(result.total, result.max_score),
        "execution_time": round(max(result.seconds, 0.0), 2),
        "output": "\n".join([*([unfinished] if unfinished else []), *_summary(result)]),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "extra_data": {"isolation": result.isolation, "submission_key": result.key},
        "tests": tests,
    }
    return json.dumps(results, indent=1, allow_nan=False) + "\n"


def _of_problem(
    result: Result, problem: Problem, wrong: list[list[Item]], number: str
) -> dict[str, Any]:
    lines = [f"{problem.passed} right, {problem.failed} wrong, {problem.not_started} not started"]
    lines += [
        f"Not allowed here: {reading.describe(finding)}"
        for finding in result.policy
        if finding.problem == problem.problem
    ]
    if wrong:
        lines.append(f"Try it with: {reading.command_for(problem.problem)}")
    if len(wrong) > MAX_ITEMS:
        lines.append(f"The first {MAX_ITEMS} of {len(wrong)} follow.")
    return {
        "name": reading.title(problem),
        "number": number,
        "score": _points(problem.points, problem.max_points),
        "max_score": problem.max_points,
        "status": "passed" if reading.is_right(problem) else "failed",
        "output": "\n".join(lines),
        "tags": [problem.problem],
        "visibility": "visible",
    }


def _of_hidden(problem: Problem, number: str, visibility: Visibility) -> dict[str, Any]:
    return {
        "name": f"{reading.title(problem)}: hidden inputs",
        "number": number,
        "status": "failed",
        "output": reading.hidden_count(problem),
        "tags": [problem.problem],
        "visibility": visibility,
    }


def _of_items(group: list[Item], number: str) -> dict[str, Any]:
    item = group[0]
    test: dict[str, Any] = {
        "name": reading.name_of_all(group),
        "number": number,
        "status": "failed",
        "output": reading.explanation(item),
        "tags": [item.problem, reading.KINDS.get(item.outcome, "error")],
        "visibility": "visible",
    }
    if item.diagnosis:
        test["extra_data"] = {"diagnosis": one_line(item.diagnosis)}
    return test


def _summary(result: Result) -> list[str]:
    isolation = reading.ISOLATION.get(result.isolation, result.isolation)
    shared = [
        f"{len(group)} checks say: {reading.explanation(group[0])}"
        for group in reading.everywhere(result)
    ]
    adjusted = map(reading.adjusted, result.adjustments)
    return [*adjusted, *reading.advice(result), *shared, f"Isolation: {isolation}"]


def _points(points: float, max_points: float) -> float:
    return round(min(max(points, 0.0), max_points), 4)
