"""Plant each fault, let its problem's items fail, and see which lines are named.

One process imports torch and collects the examination; each fault then lives in a forked child with
a repository of its own, so that no fault sees another.
"""

import ast
import contextlib
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import guard
import pytest
from bank.plantings import SOURCES, Planting, put_in_place
from compare import WrongAnswer
from faults.run import run_each

from lab import ROOT
from lab.places import explain

MOST_TRACED = 3
"""Wrong answers of a problem that are traced until something is found."""
MOST_SECONDS_TRACED = 5.0
Place = tuple[str, int]
"""File and line."""


@dataclass(frozen=True)
class Result:
    """What was said about one fault."""

    planting: Planting
    named: list[Place]
    """The lines that the first explained failure names, the most suspicious first."""
    last: Place | None
    """The line that made the output: what a student would look at without being told."""
    is_found: bool
    """Whether the faulty line is among the first three named."""
    is_last: bool
    """Whether it is the line that made the output."""
    said: str
    seconds: float
    error: str = ""


OnResult = Callable[[Result], None]


def measure(plantings: Sequence[Planting], jobs: int, on_result: OnResult) -> list[Result]:
    """Examine every planted fault; results come in the order of their end."""
    results: list[Result] = []

    def take(planting: Planting, _: Sequence[pytest.Item], seen: Any, error: str) -> None:
        results.append(result_of(planting, seen or None, error))
        on_result(results[-1])

    run_each(plantings, 0, jobs, seen_in, take, put_in_place)
    return results


class Explainer:
    """A pytest plugin that explains the first wrong answers, until a line is named."""

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {
            "failed": 0, "named": [], "last": None, "said": "", "seconds": 0.0,
        }  # fmt: skip
        self.tries = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the items that failed."""
        self.seen["failed"] += report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: Any, call: pytest.CallInfo[None]) -> None:
        """Trace a wrong answer; what cannot be traced stays unexplained."""
        error = call.excinfo.value if call.excinfo else None
        if not isinstance(error, WrongAnswer) or self.tries >= MOST_TRACED:
            return
        self.tries += 1
        conftest = item.config.pluginmanager.get_plugin(str(ROOT / "tests" / "conftest.py"))
        inputs, adapters = item.stash.get(conftest.ASKED, {}), item.funcargs["adapters"]

        def run(probe: Callable[..., Any], **given: Any) -> Any:
            conftest.seed_everything(0)
            return probe(adapters, **conftest.copied(given))

        started = time.monotonic()
        with contextlib.suppress(guard.OutOfTimeError), guard.guarded(MOST_SECONDS_TRACED):
            try:
                finding, self.seen["said"] = explain(run, inputs)
                if finding is not None:
                    self.seen["named"] = [line[1:3] for line in finding.lines()]
                    self.seen["last"] = finding.made_by[1:3] if finding.made_by else None
            except Exception:
                self.seen["error"] = traceback.format_exc()
        self.seen["seconds"] += time.monotonic() - started


def seen_in(items: list[pytest.Item]) -> dict[str, Any]:
    """Run the items until a failure is explained; return what was said and found."""
    explainer = Explainer()
    items[0].config.pluginmanager.register(explainer)
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if explainer.seen["named"]:
            break
    return explainer.seen


def result_of(planting: Planting, seen: dict[str, Any] | None, error: str) -> Result:
    if seen is None:
        return Result(planting, [], None, False, False, "", 0.0, error)
    right = (SOURCES[planting.style] / planting.file).read_text(encoding="utf-8")
    source, lines = planting.planted(right)
    statements = statements_of(source)
    faulty = {statements.get(line, line) for line in lines}
    named = [(file, line) for file, line in seen["named"]]
    last = tuple(seen["last"]) if seen["last"] else None

    def is_faulty(one: Place) -> bool:
        file, line = one
        return file.endswith(f"cs_basics/{planting.file}") and statements.get(line, line) in faulty

    error = seen.get("error", "") or ("" if seen["failed"] else "no item failed")
    return Result(
        planting,
        named,
        last,
        any(map(is_faulty, named[:3])),
        last is not None and is_faulty(last),
        seen["said"],
        seen["seconds"],
        error,
    )


def statements_of(source: str) -> dict[int, int]:
    """Map each line of a statement to its first line; a compound one ends with its header."""
    first: dict[int, int] = {}
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.stmt) or hasattr(node, "body"):
            continue
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            first[line] = node.lineno
    return first
