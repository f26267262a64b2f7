"""Write each case as a repository of its own, and run the items of its problems on it.

One process imports torch and collects the examination; each case then lives in a forked child, so
that no fault sees another and nothing is imported twice.
"""

import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from bank.cases import Case
from bank.patches import ROOT, write_repository
from bank.verdict import Result

EXAMINATION = ROOT / "tests"
# Seconds of CPU time; ten times as many by the clock, for a child that waits instead.
CHILD_LIMIT_S = 240


def examine(
    cases: Sequence[Case], seed: int, jobs: int, on_result: Callable[[Result], None]
) -> list[Result]:
    """Examine every case; results come in the order of their end.

    Raises:
        RuntimeError: The examination could not be collected.
    """
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as nowhere:
        bank = Examiner(cases, seed, jobs, Path(folder), on_result)
        options = ["--exam-seed", str(seed), "--ignore", str(EXAMINATION / "project")]
        options += ["--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), "-s", "-q"]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        with redirect_stdout(nowhere):
            code = pytest.main([*options, str(EXAMINATION)], plugins=[bank])
    if len(bank.results) < len(cases):
        raise RuntimeError(f"the examination does not run ({code!s}): try pytest --collect-only")
    return bank.results


@dataclass(eq=False)
class Examiner:
    """A pytest plugin that runs the collected items once for each case instead of once."""

    cases: Sequence[Case]
    seed: int
    jobs: int
    folder: Path
    on_result: Callable[[Result], None]
    results: list[Result] = field(default_factory=list[Result])
    running: dict[int, tuple[Case, Path]] = field(default_factory=dict[int, tuple[Case, Path]])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("collection failed")
        # These import for seconds when they are used first: once here, not in every child.
        torch.empty(1, 2, device="meta") @ torch.empty(2, 1, device="meta")
        torch.use_deterministic_algorithms(False)
        for number, case in enumerate(self.cases):
            if len(self.running) >= self.jobs:
                self.wait_for_one()
            files = {f"test_{problem}" for problem in case.problems}
            items = [item for item in session.items if item.path.stem in files]
            if not items:
                raise session.Failed(f"no item belongs to the problems {case.problems}")
            place = self.folder / str(number)
            place.mkdir()
            child = os.fork()
            if child == 0:
                run_child(case, items, place)
            self.running[child] = case, place
        while self.running:
            self.wait_for_one()
        return True

    def wait_for_one(self) -> None:
        child, status = os.wait()
        case, place = self.running.pop(child)
        rows, error = [], ""
        if status == 0:
            rows = json.loads((place / "rows.json").read_text())
        else:
            error = why_it_ended(os.waitstatus_to_exitcode(status), place)
        self.results.append(Result(case, self.seed, rows, error))
        self.on_result(self.results[-1])


def run_child(case: Case, items: list[pytest.Item], place: Path) -> None:
    """Examine the case in this forked process, leave the rows in a file, and end."""
    code = 1
    try:
        signal.setitimer(signal.ITIMER_PROF, CHILD_LIMIT_S)
        signal.alarm(10 * CHILD_LIMIT_S)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        tempfile.tempdir = str(place)
        items[0].config.option.submission = write_repository(case.patch, place)
        for name in [name for name in sys.modules if name.partition(".")[0] == "cs_basics"]:
            del sys.modules[name]
        (place / "rows.json").write_text(json.dumps(rows_of(items)))
        code = 0
    except BaseException:
        (place / "error.txt").write_text(traceback.format_exc())
    finally:
        os._exit(code)


def why_it_ended(code: int, place: Path) -> str:
    if code in (-signal.SIGPROF, -signal.SIGALRM):
        return f"hung for {CHILD_LIMIT_S} s"
    told = place / "error.txt"
    reason = told.read_text().strip().splitlines()[-1] if told.exists() else "killed?"
    return f"ended with exit code {code}: {reason}"


def rows_of(items: list[pytest.Item]) -> list[dict[str, Any]]:
    """Run one item after the other; return what the report of the examination has of each."""
    rows: list[dict[str, Any]] = []

    class Collector:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            rows.extend(row for name, row in report.user_properties if name == "examination")

    items[0].config.pluginmanager.register(Collector())
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    return rows
