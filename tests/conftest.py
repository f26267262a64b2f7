"""The examination's fixtures: where a probe runs, and what becomes of its answers.

Each problem of rubric.toml has one file, test_PROBLEM.py. What these files import lies in exam/,
which is on the import path (pyproject.toml):

    probes/, oracles/, mistakes/    what is done, what is right, what known mistakes answer
    adapter.py, alike.py            what an adapter is asked; what many adapters are asked alike
    cases.py, texts.py, fresh.py, difficulties.py, initialisation.py    what it is asked with
    compare.py, trials.py    whether an answer is right, and if not, why
    asked.py, failure.py, lacking.py, debugger.py    what a failure shows
    points.py, report.py, record.py, progress.py, page.py    what becomes of it in the end
    options.py, submission.py, guard.py    the command line, the adapters, the limits
"""

import itertools
import random
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Generator
from pathlib import Path
from types import ModuleType
from typing import Any

import asked
import guard
import numpy as np
import pytest
import report
from compare import NotStarted, WrongAnswer
from debugger import AGAIN, AtTheCall
from failure import (
    message,
    outcome,
    place_of_error,
    say_what_was_asked,
    show_own_frames,
)
from fresh import Fresh
from lacking import why_not_imported
from record import UNUSABLE, Record
from submission import load_adapters

ADAPTER_PREFIXES = ("run_", "get_")
TESTS = Path(__file__).parent
SCALARS = (int, float, str, bytes, np.number, type(None))
ASKED = pytest.StashKey[dict[str, Any]]()
"""The inputs of the last question."""
SPENT = pytest.StashKey[dict[str | None, float]]()
"""CPU seconds that the questions of each problem have taken."""
LEFT_BEHIND = (
    "ResourceWarning",
    "pytest.PytestUnraisableExceptionWarning",
    "pytest.PytestUnhandledThreadExceptionWarning",
)

pytest_plugins = ["options"]


def pytest_configure(config: pytest.Config) -> None:
    submission = config.getoption("--submission")
    if submission and not (submission / "tests" / "adapters.py").is_file():
        msg = f"--submission {submission}: there is no tests/adapters.py in it"
        raise pytest.UsageError(msg)
    files: dict[str, Path | None] = {}
    for option in ("--exam-report", "--exam-page"):
        file = config.getoption(option)
        if file and not file.parent.is_dir():
            msg = f"{option} {file}: the folder {file.parent} does not exist"
            raise pytest.UsageError(msg)
        files[option] = file and file.resolve()
    if is_examination(config):
        # What a submission never closes is collected later, in the midst of some right item.
        for kind in LEFT_BEHIND:
            config.addinivalue_line("filterwarnings", f"default::{kind}")
    if (submission or config.getoption("--problem")) and config.option.verbose == 0:
        config.option.verbose = -1  # A dot for each item, and no line for each file.
    if not hasattr(config, "workerinput"):
        # Progress is kept where the work goes on: in a student edition.
        is_kept = (TESTS / "exam/stored.py").is_file() and not submission
        kept = TESTS.parent / ".progress.json" if is_kept else None
        config.pluginmanager.register(Record(*files.values(), kept))


def pytest_sessionstart(session: pytest.Session) -> None:
    if otherwise := session.config.pluginmanager.unregister(name="pdbinvoke"):  # With --pdb.
        session.config.pluginmanager.register(AtTheCall(otherwise))


# --- which items there are ---


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave this project's own tests out of the examination of another one, or of one problem."""
    return True if is_examination(config) and collection_path == TESTS / "project" else None


def is_examination(config: pytest.Config) -> bool:
    """Whether the run examines a submission, and nothing of this project is tested."""
    is_whole = (TESTS / "project").exists()
    return not is_whole or bool(config.getoption("--submission") or config.getoption("--problem"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == TESTS:
            item.add_marker(pytest.mark.problem(problem_in(item)))
    only = config.getoption("--problem")
    if only:
        others = [item for item in items if problem_of(item) not in only]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if problem_of(item) in only]
    items.sort(key=place_of)


def problem_in(item: pytest.Item) -> str:
    """Name the problem that a file examines: test_rmsnorm.py examines rmsnorm."""
    problem = item.path.stem.removeprefix("test_")
    if problem not in report.RUBRIC:
        msg = f"{item.nodeid}: no problem {problem!r} in {report.RUBRIC_FILE.name}"
        raise pytest.UsageError(msg)
    return problem


def place_of(item: pytest.Item) -> tuple[bool, int]:
    """Where an item stands in the order of the run.

    Long items come first, so that a process that runs out of work takes short ones from another.
    Then problems follow the rubric's order.
    """
    problems = list(report.RUBRIC)
    problem = problem_of(item)
    order = problems.index(problem) if problem in problems else len(problems)
    return item.get_closest_marker("slow") is None, order


def problem_of(item: pytest.Item) -> str | None:
    marker = item.get_closest_marker("problem")
    return marker.args[0] if marker and marker.args else None


# --- what became of them ---


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    if call.excinfo is not None:
        show_own_frames(call.excinfo)
        explain(call.excinfo.value, item)
    finished = yield
    problem = problem_of(item)
    over = finished.when == "call" or (finished.when == "setup" and finished.failed)
    if problem is None or not over or finished.skipped:
        return finished
    error = call.excinfo.value if call.excinfo else None
    row = {
        "problem": problem,
        "item": item.nodeid,
        "outcome": outcome(error),
        "diagnosis": getattr(error, "diagnosis", None),
        "message": "" if error is None else message(error),
    }
    finished.user_properties.append(("examination", row))
    return finished


def explain(error: BaseException, item: pytest.Item) -> None:
    """Put the question before a wrong answer's message."""
    inputs = item.stash.get(ASKED, {})
    say_what_was_asked(error, question_of(inputs) if inputs else "")


def pytest_report_teststatus(
    report: pytest.CollectReport | pytest.TestReport,
) -> tuple[str, str, str] | None:
    """Set what was not started apart from what failed."""
    # A file that cannot be imported has a report as well, but nothing about items.
    properties = getattr(report, "user_properties", ())
    rows = [row for name, row in properties if name == "examination"]
    if rows and rows[0]["outcome"] == "not_started":
        return "not started", "n", "NOT STARTED"
    return None


# --- fixtures ---


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> list[int]:
    """The examination's seed and the item's name: every item draws its own inputs."""
    return [
        request.config.getoption("--exam-seed"),
        zlib.crc32(request.node.name.encode()),
    ]


@pytest.fixture
def rng(seed: list[int]) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(scope="session")
def adapters(request: pytest.FixtureRequest) -> ModuleType:
    root = request.config.getoption("--submission") or TESTS.parent
    try:
        return load_adapters(root)
    except Exception as error:
        reason = f"{UNUSABLE}{why_not_imported(error, root)}"
    request.session.shouldfail = "nothing can be examined"  # Once is enough.
    return pytest.fail(reason, pytrace=False)


@pytest.fixture
def observe(
    request: pytest.FixtureRequest, adapters: ModuleType, seed: list[int]
) -> Callable[..., Any]:
    """Run `probe(adapters, **inputs)` and return what it saw.

    Probes are top-level functions and exchange plain data only, so that a grader can replace this
    fixture by one that ships them to another process. `observe.fresh` draws other letters where
    inputs are hidden.
    """

    turns = itertools.count(1)

    def run(probe: Callable[..., Any], *, aside: bool = False, **inputs: Any) -> Any:
        given = copied(inputs)
        if not aside:  # A question aside (trials.py) is not what a failure is about.
            request.node.stash[ASKED] = inputs
            request.node.stash[AGAIN] = lambda of: probe(of(adapters), **copied(inputs))
        # Asked aside, no question has the seed of another: what is random shows (trials.ask).
        own = [*seed, next(turns)] if aside else seed
        seed_everything(zlib.crc32(repr(own).encode()))
        spent = request.config.stash.setdefault(SPENT, {})
        problem = problem_of(request.node)
        left = guard.MOST_SECONDS_OF_PROBLEM - spent.get(problem, 0.0)
        if left <= 0:
            raise WrongAnswer(f"not asked: {guard.OUT_OF_TIME}", "out-of-time")
        started = time.process_time()
        try:
            with warnings.catch_warnings(), guard.guarded(min(left, guard.MOST_SECONDS)):
                # Warnings of a submission (an unclosed file, say) are shown, not held against it.
                warnings.simplefilter("default")
                seen = probe(adapters, **given)
        except guard.OutOfTimeError as error:
            where = place_of_error(error)
            said = f"stopped at {where}" if where else "stopped"
            raise WrongAnswer(f"{said}: {guard.OUT_OF_TIME}", "out-of-time") from None
        except AttributeError as error:
            if error.obj is not adapters:
                raise
            raise NotStarted(error.name) from None
        except Exception as error:
            if is_blank(error):
                raise NotStarted(adapter_in(error)) from None
            if guard.is_out_of_memory(error):
                error.add_note(guard.OUT_OF_MEMORY)
            error.add_note(f"asked for {question_of(inputs)}")
            raise
        finally:
            spent[problem] = spent.get(problem, 0.0) + time.process_time() - started
        return copied(seen)

    # Items about letters hold for any letters: one that asks for rng gets letters of its own.
    is_drawn = seed[0] != 0 and "rng" in request.fixturenames
    run.fresh = Fresh(seed if is_drawn else None)  # pyright: ignore[reportFunctionMemberAccess]
    return run


def question_of(inputs: dict[str, Any]) -> str:
    return asked.question(inputs) or ", ".join(asked.described(inputs, inputs)) or "nothing else"


def is_blank(error: Exception) -> bool:
    """Whether a blank to fill in raised this, not PyTorch for a dtype, a device or a `foward`."""
    refusals = (
        *("not implemented for", "missing the required", "Could not run", "meta tensor"),
        *("not supported", "unsupported"),
    )
    return isinstance(error, NotImplementedError) and not any(say in str(error) for say in refusals)


def adapter_in(error: BaseException) -> str:
    """Name the adapter that an exception came through."""
    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    return next((name for name in frames if name.startswith(ADAPTER_PREFIXES)), "an adapter")


def seed_everything(seed: int) -> None:
    """Make a submission's own randomness repeatable; it may draw from any of these."""
    import torch

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    if torch.cuda.is_available():
        torch.manual_seed(seed)
    else:  # The same, without a stack trace kept for each kind of GPU that is not there.
        torch.default_generator.manual_seed(seed)


def copied(value: Any) -> Any:
    """Copy plain data; refuse what could not cross to another process as a header and raw bytes."""
    if isinstance(value, SCALARS):
        return value
    # A subclass becomes what it would be on the other side: its constructor may take what it likes.
    if isinstance(value, list):
        return [copied(item) for item in value]
    if isinstance(value, tuple):
        return tuple([copied(item) for item in value])
    if isinstance(value, dict):
        return {copied(key): copied(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        held = value.copy(order="K")
        if held.dtype.kind == "f":
            with np.errstate(invalid="ignore"):  # A NaN that signals would complain in any cast.
                np.multiply(held, 1, out=held)
        return held
    msg = f"a probe exchanges plain data only, not {type(value).__name__}"
    raise TypeError(msg)
