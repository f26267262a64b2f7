"""The result that GitHub Classroom's reporter reads: base64 of JSON, a test for each problem.

docs/teach.md says how a workflow hands it on.
"""

import base64
import json
from typing import Any

from cs_grader.plain_text import one_line
from cs_grader.result import Problem, Result
from cs_grader.results import reading
from cs_grader.results.reading import Reader

VERSION = 3
OUTPUT_CHARS = 460
"""The reporter takes 500 characters, including those that say how much is missing."""


def github_result(result: Result) -> str:
    """Return the base64 text, one line without an end."""
    result = reading.as_seen_by(result, Reader.STUDENT)
    tests = [_of_problem(result, problem) for problem in result.problems]
    is_right = all(test["status"] == "pass" for test in tests) and bool(tests)
    classroom = {
        "version": VERSION,
        "status": "pass" if is_right else "fail",
        "max_score": result.max_score,
        "tests": tests,
    }
    if result.note:
        classroom["message"] = one_line(result.note, OUTPUT_CHARS)
    return base64.b64encode(json.dumps(classroom, allow_nan=False).encode()).decode()


def _of_problem(result: Result, problem: Problem) -> dict[str, Any]:
    items = [item for item in result.items if item.problem == problem.problem]
    wrong = reading.all_failures(result, problem.problem)
    file = items[0].item.partition("::")[0] if items else ""
    total = problem.passed + problem.failed + problem.not_started
    counts = f"{problem.passed} of {total} right"
    test: dict[str, Any] = {
        "name": reading.title(problem),
        "status": "pass" if reading.is_right(problem) else "fail",
        "test_code": reading.command_for(problem.problem),
        "task_id": problem.problem,
        "filename": one_line(file),
        "line_no": 0,
        "duration": round(sum(item.seconds for item in items), 3),
        "score": round(problem.points, 4),
        "max_score": problem.max_points,
        "output": counts,
    }
    first = [
        f"{reading.name_of_all(group)}: {reading.explanation(group[0])}" for group in wrong[:1]
    ]
    about = " ".join(filter(None, [reading.hidden_count(problem), *first]))
    if about:
        test["message"] = one_line(f"{counts}. {about}", OUTPUT_CHARS)
        test["output"] = one_line(f"{counts}. {about}", OUTPUT_CHARS)
    return test
