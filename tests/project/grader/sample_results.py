"""Results such as marking produces, for tests of what is written from them."""

import base64
import dataclasses
import random

from report import RUBRIC

from cs_grader.result import Finding, Item, Problem, Result
from cs_grader.results.github import github_result

MISTAKES = {
    "rmsnorm": ["eps-is-added-outside-of-the-root", "the-mean-is-subtracted-first"],
    "softmax": ["the-largest-value-is-not-subtracted"],
    "rope": ["pairs-are-halves-instead-of-neighbours"],
    "adamw": ["the-decay-is-scaled-by-the-corrected-rate", "eps-is-inside-of-the-root"],
    "linear": ["the-weight-is-transposed"],
}
SECRET = "12345.678"
"""Stands for numbers and inputs in the messages of hidden items."""

NASTY = (
    "<script>document.title='owned'</script>\"'><img src=x onerror=alert(1)> ]]> &amp; `x` ```\n"
    "::set-output name=x::y\n# head | cell | [a](javascript:alert(1)) @all \x1b[31mred\x1b[0m\x00"
    "\x07\x9b2J\u202eodd\ud83d =cmd|'/C calc'!A0"
)


def item(problem="rmsnorm", number=0, outcome="passed", *, is_hidden=False, **changes):
    about = {
        "problem": problem,
        "item": f"tests/test_{problem}.py::test_{problem}_holds[{number}]",
        "outcome": outcome,
        "diagnosis": None,
        "message": "" if outcome == "passed" else f"expected {SECRET}, got 3",
        "is_hidden": is_hidden,
        "seconds": 0.03,
    }
    return Item(**(about | changes))


def result(items=(), submission="ada", **changes):
    """A result with the points that its items earn."""
    items = tuple(items)
    problems = []
    for problem, entry in RUBRIC.items():
        outcomes = [each.outcome for each in items if each.problem == problem]
        if not outcomes:
            continue
        passed, left = outcomes.count("passed"), outcomes.count("not_started")
        problems.append(
            Problem(
                problem=problem,
                title=entry["title"],
                points=entry["points"] * passed / len(outcomes),
                max_points=float(entry["points"]),
                passed=passed,
                failed=len(outcomes) - passed - left,
                not_started=left,
                hidden=sum(each.is_hidden for each in items if each.problem == problem),
                hidden_wrong=sum(
                    each.is_hidden and each.outcome != "passed"
                    for each in items
                    if each.problem == problem
                ),
            )
        )
    about = {
        "submission": submission,
        "key": "0" * 64,
        "isolation": "bubblewrap",
        "secret": "987654321",
        "note": "",
        "score": sum(problem.points for problem in problems),
        "max_score": 100.0,
        "seconds": 12.5,
        "problems": tuple(problems),
        "items": items,
        "policy": (),
        "output": "",
    }
    return Result(**(about | changes))


def finding(rule="needs review", **changes):
    about = {
        "problem": "linear",
        "rule": rule,
        "operator": "torch.nn.functional.linear",
        "file": "model/layers.py",
        "line": 12,
        "message": "the linear layer is to be written by hand",
    }
    return Finding(**(about | changes))


def student(seed):
    """Someone who has begun some of the problems, with some of the items right."""
    rng = random.Random(seed)
    reached = rng.randint(6, 30)
    items = []
    for place, problem in enumerate(RUBRIC):
        mistake = rng.choice(MISTAKES.get(problem, [None]))
        for number in range(6):
            outcome = rng.choice(["passed", "failed"]) if place <= reached else "not_started"
            about = {"is_hidden": number % 2 == 1, "diagnosis": mistake}
            about = about if outcome == "failed" else about | {"diagnosis": None}
            items.append(item(problem, number // 2, outcome, **about))
    name = f"student-{seed}"
    policy = (finding("needs review" if seed % 2 else "forbidden"),) if seed % 17 == 3 else ()
    note = "tests/adapters.py, line 12: SyntaxError: invalid syntax" if seed % 23 == 5 else ""
    return dataclasses.replace(result(items, name), policy=policy, note=note)


def everyone(num):
    return [student(seed) for seed in range(num)]


def github(submission):
    """Return what GitHub decodes."""
    return base64.b64decode(github_result(submission), validate=True).decode()
