"""Plant each fault, let its problem's items fail, and see which lines are named.

One process imports torch and collects the examination; each fault then lives in a forked child with
a repository of its own, so that no fault sees another.
"""

import ast
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from faults.run import run_each

from planted.plantings import ROOT, SOURCES, Planting

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


def put_in_place(planting: Planting, place: Path, config: pytest.Config) -> None:
    """Let the items examine a repository with the fault in it."""
    write_repository(planting, place)
    config.option.submission = place
    for name in [name for name in sys.modules if name.partition(".")[0] == "cs_basics"]:
        del sys.modules[name]


def write_repository(planting: Planting, place: Path) -> None:
    package = place / "cs_basics"
    package.mkdir(parents=True)
    for style in dict.fromkeys(("reference", planting.style)):
        for file in SOURCES[style].glob("*.py"):
            shutil.copy(file, package)
    (place / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "adapters.py", place / "tests")
    file = package / planting.file
    source, _ = planting.planted(file.read_text(encoding="utf-8"))
    file.write_text(source, encoding="utf-8")


def seen_in(items: list[pytest.Item]) -> dict[str, Any]:
    """Run the items until a failure is explained; return what was said and found."""
    import places

    seen: dict[str, Any] = {"failed": 0, "named": [], "last": None, "said": "", "seconds": 0.0}
    explain, find = places.explain, places.find

    def timed(*given: Any) -> str:
        started = time.monotonic()
        try:
            seen["said"] = explain(*given)
        except Exception:
            seen["error"] = traceback.format_exc()
        seen["seconds"] += time.monotonic() - started
        return seen["said"]

    def noted(*given: Any) -> Any:
        finding = find(*given)
        if finding is not None:
            seen["named"] = [line[1:3] for line in finding.lines()]
            seen["last"] = finding.made_by[1:3] if finding.made_by else None
        return finding

    places.explain, places.find = timed, noted

    class Collector:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            seen["failed"] += report.failed

    items[0].config.pluginmanager.register(Collector())
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if seen["named"]:
            break
    return seen


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
