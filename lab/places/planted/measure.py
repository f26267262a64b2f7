"""Plant each fault, let its problem's items fail, and see which lines are named.

One process imports torch and collects the examination; each fault then lives in a forked child with
a repository of its own, so that no fault sees another.
"""

import ast
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import guard
import pytest
from compare import WrongAnswer

from lab.places import explain
from lab.places.planted.plantings import ROOT, SOURCES, Planting

CHILD_LIMIT_S = 120
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
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as nowhere:
        runner = Runner(plantings, jobs, Path(folder), on_result)
        options = ["--ignore", str(ROOT / "tests" / "project"), "--rootdir", str(ROOT)]
        options += ["-c", str(ROOT / "pyproject.toml"), "-s", "-q"]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        with redirect_stdout(nowhere):
            code = pytest.main([*options, str(ROOT / "tests")], plugins=[runner])
    if len(runner.results) < len(plantings):
        raise RuntimeError(f"the examination does not run ({code!s}): try pytest --collect-only")
    return runner.results


class Runner:
    """A pytest plugin that runs a problem's items once for each fault planted in it."""

    def __init__(
        self, plantings: Sequence[Planting], jobs: int, folder: Path, on_result: OnResult
    ) -> None:
        self.plantings = plantings
        self.jobs = jobs
        self.folder = folder
        self.on_result = on_result
        self.results: list[Result] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("collection failed")
        running: dict[int, tuple[Planting, Path, set[int]]] = {}
        for number, planting in enumerate(self.plantings):
            if len(running) >= self.jobs:
                self.wait_for_one(running)
            place = self.folder / str(number)
            lines = write_repository(planting, place)
            items = [item for item in session.items if is_of(item, planting.problem)]
            child = os.fork()
            if child == 0:
                run_child(items, place)
            running[child] = planting, place, lines
        while running:
            self.wait_for_one(running)
        return True

    def wait_for_one(self, running: dict[int, tuple[Planting, Path, set[int]]]) -> None:
        child, status = os.wait()
        planting, place, lines = running.pop(child)
        seen = json.loads((place / "seen.json").read_text()) if status == 0 else None
        result = result_of(planting, place, lines, seen)
        shutil.rmtree(place)
        self.results.append(result)
        self.on_result(result)


def is_of(item: pytest.Item, problem: str) -> bool:
    return any(marker.args[0] == problem for marker in item.iter_markers("problem"))


def write_repository(planting: Planting, place: Path) -> set[int]:
    """Write an implementation with a fault; return the numbers of the faulty lines."""
    package = place / "cs_basics"
    package.mkdir(parents=True)
    for style in dict.fromkeys(("reference", planting.style)):
        for file in SOURCES[style].glob("*.py"):
            shutil.copy(file, package)
    (place / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "adapters.py", place / "tests")
    file = package / planting.file
    source, lines = planting.planted(file.read_text(encoding="utf-8"))
    file.write_text(source, encoding="utf-8")
    return lines


def run_child(items: list[pytest.Item], place: Path) -> None:
    """Run items until one is explained, in this forked process, and leave what was said."""
    code = 1
    try:
        signal.setitimer(signal.ITIMER_PROF, CHILD_LIMIT_S)
        signal.alarm(10 * CHILD_LIMIT_S)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        items[0].config.option.submission = place
        for name in [name for name in sys.modules if name.partition(".")[0] == "cs_basics"]:
            del sys.modules[name]
        (place / "seen.json").write_text(json.dumps(seen_in(items)))
        code = 0
    except BaseException:
        (place / "error.txt").write_text(traceback.format_exc())
    finally:
        os._exit(code)


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


def result_of(
    planting: Planting, place: Path, lines: set[int], seen: dict[str, Any] | None
) -> Result:
    if seen is None:
        told = place / "error.txt"
        reason = told.read_text().strip().splitlines()[-1] if told.exists() else "hung or killed"
        return Result(planting, [], None, False, False, "", 0.0, reason)
    statements = statements_of(place / "cs_basics" / planting.file)
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


def statements_of(file: Path) -> dict[int, int]:
    """Map each line of a statement to its first line; a compound one ends with its header."""
    first: dict[int, int] = {}
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.stmt) or hasattr(node, "body"):
            continue
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            first[line] = node.lineno
    return first
