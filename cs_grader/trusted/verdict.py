"""What an examination comes to: items, points, findings and a note, as one result."""

import dataclasses
import functools
import importlib.util
import itertools
import re
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cs_grader.plain_text import plain
from cs_grader.result import Finding, Item, Problem, Result
from cs_grader.rules.findings import findings
from cs_grader.trusted.connection import TIME_IS_UP
from cs_grader.trusted.examination import Examination, rubric_of
from cs_grader.trusted.hidden import name_of_secret

MAX_MESSAGE = 4000
MAX_NOTE = 300
MAX_OUTPUT = 20_000
NOT_RUN = "not examined"
# What differs from run to run and says nothing: addresses, names of temporary files.
ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")
# Bounded, since a message may be made of slashes: an unbounded path is quadratic in its length.
TEMPORARY = re.compile(r"/(?:[\w.-]{1,100}/){0,12}(?:tmp|submission-|pymp-)[a-z0-9_]{8}\b")


def result_of(one: Examination) -> Result:
    """Make a result of what is known; what has not been examined has not been passed."""
    terms = one.terms
    items = tuple(_item(one, *planned) for planned in one.plan)
    problems = tuple(_problems(one, items))
    failed = {problem.problem for problem in problems if problem.failed}
    return Result(
        submission=one.name,
        handed_in_as=one.handed_in_as,
        key=one.copied.key,
        isolation=terms.isolation,
        secret=name_of_secret(terms.secret),
        note=_note(one),
        score=round(sum(problem.points for problem in problems), 6),
        max_score=float(sum(problem.max_points for problem in problems)),
        seconds=round(time.monotonic() - one.started, 3),
        problems=problems,
        items=items,
        policy=tuple(_findings(one, failed)),
        output=plain(_steady(one, _without_repeats(one.output)), MAX_OUTPUT),
    )


# --- items and points ---


def _item(one: Examination, is_hidden: bool, problem: str, node: str) -> Item:
    not_run = {"outcome": "error", "diagnosis": None, "message": NOT_RUN, "seconds": 0.0}
    row = one.rows.get((is_hidden, node), not_run)
    return Item(
        problem=problem,
        item=node,
        outcome=row["outcome"],
        diagnosis=row["diagnosis"] and plain(row["diagnosis"], 200),
        message=plain(_steady(one, row["message"]), MAX_MESSAGE),
        is_hidden=is_hidden,
        seconds=row["seconds"],
    )


def _problems(one: Examination, items: Sequence[Item]) -> Iterator[Problem]:
    tests = one.terms.tests
    rubric = rubric_of(tests)
    rows = [one.rows.get((item.is_hidden, item.item), {}) for item in items]
    told = [row | _counted(item) for row, item in zip(rows, items, strict=True)]
    earned = _points_of(tests)(rubric, told, trivial_items(tests))
    for name, points in earned.items():
        of = [item for item in items if item.problem == name]
        passed = sum(item.outcome == "passed" for item in of)
        not_started = sum(item.outcome == "not_started" for item in of)
        yield Problem(
            problem=name,
            title=rubric[name]["title"],
            points=round(points, 6),
            max_points=float(rubric[name]["points"]),
            passed=passed,
            failed=len(of) - passed - not_started,
            not_started=not_started,
            hidden=sum(item.is_hidden for item in of),
            hidden_wrong=sum(item.is_hidden and item.outcome != "passed" for item in of),
        )


def _counted(item: Item) -> dict[str, Any]:
    """What counts of an item."""
    return {name: getattr(item, name) for name in ("problem", "item", "outcome", "is_hidden")}


def trivial_items(tests: Path) -> frozenset[str]:
    """Read which items a trivial answer passes: they earn nothing by themselves."""
    file = tests / "trivial.toml"
    if not file.exists():
        return frozenset()
    return frozenset(tomllib.loads(file.read_text(encoding="utf-8"))["items"])


@functools.cache
def _points_of(tests: Path) -> Callable[..., dict[str, float]]:
    """Load how an examination turns outcomes into points: the student's report does the same."""
    spec = importlib.util.spec_from_file_location("examination_points", tests / "exam/points.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"{tests / 'exam/points.py'}: not there")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.points_of_all


# --- findings and words ---


def _findings(one: Examination, failed: set[str]) -> Iterator[Finding]:
    if one.unusable:
        return
    everything = [(problem, entry) for _, problem, entry in one.notes]
    public = [(problem, entry) for is_hidden, problem, entry in one.notes if not is_hidden]
    shown = set(findings(one.source, public, one.terms.problems, failed))
    for finding in findings(one.source, everything, one.terms.problems, failed):
        yield dataclasses.replace(
            finding,
            operator=plain(finding.operator, 200),
            file=plain(finding.file, 300),
            message=plain(finding.message, 1000),
            is_hidden=finding not in shown,
        )


def _steady(one: Examination, text: str) -> str:
    """Replace what would make the words of two runs differ."""
    if one.stage:
        for folder in ("/tmp", f"{one.stage}/scratch", one.stage):
            text = text.replace(f"{folder}/submission/", "")
        text = text.replace(one.stage, "/grading")
    return ADDRESS.sub("0x...", TEMPORARY.sub("/tmp/...", text))


def _note(one: Examination) -> str:
    parts = [one.unusable or _steady(one, one.import_note)]
    # Said here, since nobody but the instructor reads the messages of hidden items.
    if num_left := sum(row["message"].startswith(TIME_IS_UP) for row in one.rows.values()):
        of_all = f"{num_left} of {len(one.plan)} checks"
        parts.append(f"the {one.terms.budget_s / 60:g} minutes were used up before {of_all}")
    parts += [f"not installed: {name} ({file}, line {line})" for name, file, line in one.absent]
    parts += [f"left out {reason}" for reason in one.copied.left_out[:3]]
    if len(one.copied.left_out) > 3:
        parts.append(f"{len(one.copied.left_out) - 3} more left out")
    line = " ".join("; ".join(part for part in parts if part).split())
    return plain(line, MAX_NOTE)


def _without_repeats(text: str) -> str:
    """Write a repeated line once, with a mark: how often it repeats is chance and tells nothing."""
    lines: list[str] = []
    for line, group in itertools.groupby(text.splitlines()):
        lines += [line, "(the same again)"] if sum(1 for _ in group) > 1 else [line]
    return "\n".join(lines)
