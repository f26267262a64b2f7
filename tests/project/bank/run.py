"""Write each case as a repository of its own, and run the items of its problem on it.

One process imports torch and collects the examination; each case then lives in a forked child, so
that no fault sees another and nothing is imported twice.
"""

import json
import os
import re
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
import torch
from compare import EXPLANATION
from submission import load_adapters

from bank.cases import Case
from bank.patches import write_repository

ROOT = Path(__file__).parents[3]
EXAMINATION = ROOT / "tests"
# Seconds of CPU time; ten times as many by the clock, for a child that waits instead.
CHILD_LIMIT_S = 240

# How the examination introduces what a failure hangs on, beside the mistake that an answer fits.
CONTROL = "The same call"


@dataclass(frozen=True)
class Failure:
    """An item that failed, and what it said."""

    item: str
    message: str


@dataclass(frozen=True)
class Result:
    """What the examination made of one case."""

    case: Case
    seed: int
    items: list[str]
    """The items of the problem."""
    failures: list[Failure]
    error: str = ""
    """Why there is no verdict: the child hung or died."""

    @property
    def num_items(self) -> int:
        return len(self.items)

    @property
    def is_right(self) -> bool:
        """Whether a fault was caught, or a variant accepted."""
        return not self.error and bool(self.failures) == self.case.is_fault

    @property
    def naming(self) -> str:
        """Whether a caught fault was named "rightly", "wrongly" or "not"."""
        return naming(self.failures, self.case.diagnosis)


def naming(failures: Sequence[Failure], diagnosis: Sequence[str]) -> str:
    """Judge every name that is given: one that is wrong is worse than none."""
    messages = [" ".join(failure.message.split()) for failure in failures]
    names = [
        name for message in messages for name in re.split(f"{EXPLANATION}|{CONTROL}", message)[1:]
    ]
    if not all(any(words in name for words in diagnosis) for name in names):
        return "wrongly"
    if any(words in message for words in diagnosis for message in messages):
        return "rightly"
    return "not"


OnResult = Callable[[Result], None]


def examine(cases: Sequence[Case], seed: int, jobs: int, on_result: OnResult) -> list[Result]:
    """Examine every case; results come in the order of their end.

    Raises:
        RuntimeError: The examination could not be collected.
    """
    results: list[Result] = []

    def take(
        case: Case, items: Sequence[pytest.Item], rows: list[dict[str, Any]], error: str
    ) -> None:
        failures = [Failure(**row) for row in rows]
        results.append(Result(case, seed, [i.nodeid for i in items], failures, error))
        on_result(results[-1])

    run_each(cases, seed, jobs, failures_of, take, put_in_place)
    return results


class Subject(Protocol):
    """Something that items are run on."""

    @property
    def problems(self) -> Collection[str]:
        """Those whose items are run."""
        ...


Look = Callable[[list[pytest.Item]], Any]
"""Runs the items of a case's problems; what it returns can be written as JSON."""
Take = Callable[[Any, Sequence[pytest.Item], Any, str], None]
"""Takes a case, the items of its problems, what Look returned, and why it did not."""
Prepare = Callable[[Any, Path, pytest.Config], None]
"""Lets this process examine the case, which has a folder of its own."""


def run_each(
    cases: Sequence[Subject], seed: int, jobs: int, look: Look, take: Take, prepare: Prepare
) -> None:
    """Let `look` see every case in a process of its own; `take` gets what it returned.

    Raises:
        RuntimeError: The examination could not be collected.
    """
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as nowhere:
        bank = Examiner(cases, jobs, Path(folder), look, take, prepare)
        options = ["--exam-seed", str(seed), "--ignore", str(EXAMINATION / "project")]
        options += ["--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), "-s", "-q"]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        with redirect_stdout(nowhere):
            code = pytest.main([*options, str(EXAMINATION)], plugins=[bank])
    if bank.num_taken < len(cases):
        raise RuntimeError(f"the examination does not run ({code!s}): try pytest --collect-only")


class Examiner:
    """A pytest plugin that runs the collected items once for each case instead of once."""

    def __init__(
        self,
        cases: Sequence[Subject],
        jobs: int,
        folder: Path,
        look: Look,
        take: Take,
        prepare: Prepare,
    ) -> None:
        self.cases = cases
        self.jobs = jobs
        self.folder = folder
        self.look = look
        self.take = take
        self.prepare = prepare
        self.num_taken = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("collection failed")
        # These import for seconds when they are used first: once here, not in every child.
        torch.empty(1, 2, device="meta") @ torch.empty(2, 1, device="meta")
        torch.use_deterministic_algorithms(False)
        running: dict[int, tuple[Subject, Path, list[pytest.Item]]] = {}
        for number, case in enumerate(self.cases):
            if len(running) >= self.jobs:
                self.wait_for_one(running)
            items = [
                item
                for item in session.items
                if not set(case.problems).isdisjoint(problems_of(item))
            ]
            if not items:
                raise session.Failed(f"no item belongs to the problems {case.problems}")
            place = self.folder / str(number)
            place.mkdir()
            child = os.fork()
            if child == 0:
                self.run_child(case, items, place)
            running[child] = case, place, items
        while running:
            self.wait_for_one(running)
        return True

    def run_child(self, case: Subject, items: list[pytest.Item], place: Path) -> None:
        """Look at the case in this forked process, leave what is seen in a file, and end."""
        code = 1
        try:
            signal.setitimer(signal.ITIMER_PROF, CHILD_LIMIT_S)
            signal.alarm(10 * CHILD_LIMIT_S)
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            tempfile.tempdir = str(place)
            self.prepare(case, place, items[0].config)
            (place / "rows.json").write_text(json.dumps(self.look(items)))
            code = 0
        except BaseException:
            (place / "error.txt").write_text(traceback.format_exc())
        finally:
            os._exit(code)

    def wait_for_one(self, running: dict[int, tuple[Subject, Path, list[pytest.Item]]]) -> None:
        child, status = os.wait()
        case, place, items = running.pop(child)
        rows, error = [], ""
        if status == 0:
            rows = json.loads((place / "rows.json").read_text())
        else:
            error = why_it_ended(os.waitstatus_to_exitcode(status), place)
        self.num_taken += 1
        self.take(case, items, rows, error)


def why_it_ended(code: int, place: Path) -> str:
    if code in (-signal.SIGPROF, -signal.SIGALRM):
        return f"hung for {CHILD_LIMIT_S} s"
    told = place / "error.txt"
    reason = told.read_text().strip().splitlines()[-1] if told.exists() else "killed?"
    return f"ended with exit code {code}: {reason}"


def problems_of(item: pytest.Item) -> Iterator[str]:
    for marker in item.iter_markers("problem"):
        yield marker.args[0]


def put_in_place(case: Case, place: Path, config: pytest.Config) -> None:
    """Let the items examine a case."""
    root = case.root or write_repository(case.patch, place)
    examine_repository(root, config)
    if case.around:
        adapters = load_adapters(root)
        for name, function in vars(adapters).copy().items():
            if name.startswith(("run_", "get_")):
                setattr(adapters, name, case.around(function))


def examine_repository(root: Path, config: pytest.Config) -> None:
    config.option.submission = root
    for name in [name for name in sys.modules if name.partition(".")[0] == "cs_basics"]:
        del sys.modules[name]


def failures_of(items: list[pytest.Item]) -> list[dict[str, Any]]:
    """Return the failures as JSON has them."""
    failures: list[Failure] = []

    class Collector:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                failures.append(Failure(report.nodeid, message_of(report)))

    run_items(items, Collector())
    return [asdict(failure) for failure in failures]


def run_items(items: list[pytest.Item], listener: object) -> None:
    """Run one item after the other; the listener is a pytest plugin."""
    items[0].config.pluginmanager.register(listener)
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def message_of(report: pytest.TestReport) -> str:
    """What a failed item says, without the traceback and the sources that it quotes."""
    crash: Any = getattr(report.longrepr, "reprcrash", None)
    return report.longreprtext if crash is None else crash.message
