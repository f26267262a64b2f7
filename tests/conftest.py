"""The examination's fixtures and options: where a probe runs, and what becomes of its answers."""

import contextlib
import copy
import platform
import random
import time
import tomllib
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from types import ModuleType
from typing import Any

import asked
import contract
import fingerprint
import guard
import numpy as np
import page
import pytest
import report
from compare import NotStarted, WrongAnswer
from fresh import Fresh
from packaging.specifiers import SpecifierSet
from submission import load_adapters

try:
    import places
except ImportError:  # The student edition has stored answers, and nothing that computes others.
    places = None

# With more failures than this, only the first ones are shown; -v shows all.
MOST_IN_FULL = 3
UNUSABLE = "tests/adapters.py cannot be imported: "
ADAPTER_PREFIXES = ("run_", "get_")
TESTS = Path(__file__).parent
# Wrong answers of a problem that are traced, at most, until something is found.
MOST_TRACED = 3
MOST_SECONDS_TRACED = 5.0
ASKED = pytest.StashKey[dict[str, Any]]()
"""The inputs of the last question."""
ADAPTERS = pytest.StashKey[Any]()
"""Whom it was put to."""
SPENT = pytest.StashKey[dict[str | None, float]]()
"""CPU seconds that the questions of each problem have taken."""
TRACED = pytest.StashKey[Counter[str | None]]()
ASKED_OF_MANY = (
    "test_devices",
    "test_initialisation",
    "test_long_sequences",
    "test_norm_eps",
    "test_other_dtypes",
    "test_repeated_calls",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("examination")
    group.addoption(
        "--exam-seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of the examination's inputs (0 is the public one; any other must do as well)",
    )
    group.addoption(
        "--submission",
        type=Path,
        metavar="DIR",
        help="examine tests/adapters.py of another repository (--submission=DIR, in one word:"
        " pytest takes a word by itself for a folder of tests, too, and reads its conftest.py)",
    )
    group.addoption(
        "--problem",
        choices=list(report.RUBRIC),
        metavar="ID",
        help=f"examine one problem only: {', '.join(report.RUBRIC)}",
    )
    group.addoption(
        "--exam-report",
        type=Path,
        metavar="FILE",
        help="write a row for each item as JSON",
    )
    group.addoption(
        "--exam-page",
        type=Path,
        metavar="FILE",
        help="write a page (HTML) with everything that failed, and why",
    )
    group.addoption(
        "--gpt2-files",
        type=Path,
        metavar="DIR",
        default=TESTS.parents[1] / "shared" / "data" / "gpt2",
        help="where vocab.json and merges.txt of GPT-2 are (without them nothing needs them)",
    )


def pytest_configure(config: pytest.Config) -> None:
    try:
        contract.current()
    except (OSError, ValueError) as error:
        raise pytest.UsageError(str(error)) from None
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
    if (submission or config.getoption("--problem")) and config.option.verbose == 0:
        config.option.verbose = -1  # A dot for each item, and no line for each file.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Record(*files.values()))


class Record:
    """Keeps a row for each item of the examination; shows and writes them at the very end."""

    def __init__(self, report_file: Path | None, page_file: Path | None) -> None:
        self.report_file = report_file
        self.page_file = page_file
        self.rows: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.rows += [row for name, row in report.user_properties if name == "examination"]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None, None, None]:
        """Leave out what pytest would say of failures, where there are many: see `show`."""
        stats = terminalreporter.stats
        before = dict(stats)
        failed = [row for row in self.rows if row["outcome"] in ("failed", "error")]
        if len(failed) > MOST_IN_FULL and terminalreporter.verbosity < 1:
            for kind in ("failed", "error"):
                stats[kind] = [one for one in stats.get(kind, []) if not is_examined(one)]
            stats.pop("warnings", None)
        try:
            return (yield)
        finally:
            stats.update(before)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Write the rows, and show the table after everything that pytest and others show."""
        result = yield
        if self.report_file:
            report.write_rows(self.rows, self.report_file)
        if self.page_file:
            page.write_page(self.rows, self.page_file)
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        if terminal and self.rows:
            self.show(terminal)
        return result

    def show(self, terminal: Any) -> None:
        terminal.section("examination")
        if unusable := [row["message"] for row in self.rows if row["message"].startswith(UNUSABLE)]:
            terminal.write_line(f"{unusable[0]}\nNothing can be examined before.", red=True)
            return
        for line, colour in report.table(self.rows):
            terminal.write_line(line, **({colour: True} if colour else {}))
        for line in report.first_failures(self.rows) if terminal.verbosity < 1 else ():
            terminal.write_line(line)
        if self.page_file:
            terminal.write_line(f"All messages: {self.page_file}")


def is_examined(one: Any) -> bool:
    return any(name == "examination" for name, _ in getattr(one, "user_properties", ()))


# --- which items there are ---


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave this project's own tests out of the examination of another one, or of one problem."""
    is_examination = config.getoption("--submission") or config.getoption("--problem")
    if is_examination and collection_path == TESTS / "project":
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    only = config.getoption("--problem")
    if only:
        others = [item for item in items if problem_of(item) != only]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if problem_of(item) == only]
    items.sort(key=place_of)
    for item in items:
        if item.path.parent != TESTS:
            continue
        if problem_of(item) not in report.RUBRIC:
            msg = f"{item.nodeid}: no problem {problem_of(item)!r} in {report.RUBRIC_FILE.name}"
            raise pytest.UsageError(msg)


def place_of(item: pytest.Item) -> tuple[bool, int, bool]:
    """Where an item stands in the order of the run.

    The long ones first: whichever process runs out of work then takes short ones from another.
    Then as the rubric has it, and of a problem what is asked of many others too comes last: the
    first failure should be the one that says most.
    """
    problems = list(report.RUBRIC)
    problem = problem_of(item)
    order = problems.index(problem) if problem in problems else len(problems)
    return item.get_closest_marker("slow") is None, order, item.path.stem in ASKED_OF_MANY


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
        say_what_was_asked(call.excinfo.value, asked.question(item.stash.get(ASKED, {})))
        say_where_it_goes_wrong(call.excinfo.value, item)
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
    if row["outcome"] in ("failed", "error"):
        row["fingerprint"] = fingerprint.of(error, item.stash.get(ASKED, {}))
    finished.user_properties.append(("examination", row))
    return finished


def show_own_frames(error: pytest.ExceptionInfo[BaseException]) -> None:
    """Leave of an exception in a submission the frames that its author knows."""
    paths = [Path(str(frame.path)) for frame in error.traceback]
    through = [place for place, path in enumerate(paths) if path.parent == TESTS / "probes"]
    if through and len(paths) > through[-1] + 1 and isinstance(error.value, Exception):
        error.traceback = type(error.traceback)(error.traceback[through[-1] + 1 :])


def say_what_was_asked(error: BaseException, question: str) -> None:
    """Begin a wrong answer's message with the call that it is the answer to."""
    if isinstance(error, WrongAnswer) and question:
        error.msg = f"asked for {question}\n{error.msg}"


def say_where_it_goes_wrong(error: BaseException, item: pytest.Item) -> None:
    """End the first wrong answers of a problem with the line to look at, and a small example.

    Only on public inputs: a grader shows what is said about them, and nothing about others.
    """
    tries = item.session.stash.setdefault(TRACED, Counter())
    problem = problem_of(item)
    is_asked = isinstance(error, WrongAnswer) and ASKED in item.stash and places is not None
    if not is_asked or tries[problem] >= MOST_TRACED or item.config.getoption("--exam-seed"):
        return
    adapters, inputs = item.stash[ADAPTERS], item.stash[ASKED]

    def run(probe: Callable[..., Any], **given: Any) -> Any:
        seed_everything(0)
        return probe(adapters, **copy.deepcopy(given))

    tries[problem] += 1
    # What cannot be traced is not explained.
    with contextlib.suppress(Exception, guard.OutOfTimeError), guard.guarded(MOST_SECONDS_TRACED):
        where = places.explain(run, inputs)
        if where:
            tries[problem] = MOST_TRACED
            error.msg = f"{error.msg}\n{where}"


def outcome(error: BaseException | None) -> str:
    if error is None:
        return "passed"
    if isinstance(error, NotStarted):
        return "not_started"
    return "failed" if isinstance(error, WrongAnswer) else "error"


def message(error: BaseException) -> str:
    if isinstance(error, pytest.fail.Exception):
        return str(error)
    notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", []))
    return f"{type(error).__name__}: {error} ({place_of_error(error)}){notes}"


def place_of_error(error: BaseException) -> str:
    """The last line outside of libraries, or where there is none, such as for a fixture."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.name != "stop"]
    frame = next((f for f in reversed(frames) if "site-packages" not in f.filename), frames[-1])
    return f"{Path(frame.filename).name}, line {frame.lineno}"


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


def why_not_imported(error: Exception, root: Path) -> str:
    """Say what an import raised, in which line of the submission, and what to do about it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename.startswith(str(root.resolve()))]
    frame = (own or frames)[-1]
    place = (frame.filename, frame.lineno)
    if isinstance(error, SyntaxError) and error.filename:
        place = (error.filename, error.lineno)
    said = f"{type(error).__name__}: {error} ({place[0]}, line {place[1]})"
    package = (getattr(error, "name", None) or "").partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and package:
        said += f"\nIf {package} is a package, install it: python -m pip install {package}"
    with contextlib.suppress(OSError, ValueError, KeyError):
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        wanted, version = project["requires-python"], platform.python_version()
        if version not in SpecifierSet(wanted):
            said += f"\nIts pyproject.toml asks for Python {wanted}; this is {version}."
    return said


@pytest.fixture
def observe(
    request: pytest.FixtureRequest, adapters: ModuleType, seed: list[int]
) -> Callable[..., Any]:
    """Run `probe(adapters, **inputs)` and return what it saw.

    Probes are top-level functions and exchange plain data only, so that a grader can replace this
    fixture by one that ships them to another process. `observe.fresh` draws other letters where
    inputs are hidden.
    """

    def run(probe: Callable[..., Any], *, aside: bool = False, **inputs: Any) -> Any:
        check_plain(inputs)
        if not aside:  # A question aside (trials.py) is not what a failure is about.
            request.node.stash[ASKED] = inputs
            request.node.stash[ADAPTERS] = adapters
        seed_everything(zlib.crc32(repr(seed).encode()))
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
                seen = probe(adapters, **copy.deepcopy(inputs))
        except guard.OutOfTimeError as error:
            where = place_of_error(error)
            raise WrongAnswer(f"stopped at {where}: {guard.OUT_OF_TIME}", "out-of-time") from None
        except NotImplementedError as error:
            raise NotStarted(adapter_in(error)) from None
        except AttributeError as error:
            if error.obj is not adapters:
                raise
            raise NotStarted(error.name) from None
        except Exception as error:
            if guard.is_out_of_memory(error):
                error.add_note(guard.OUT_OF_MEMORY)
            error.add_note(f"given {', '.join(asked.described(inputs, inputs))}")
            raise
        finally:
            spent[problem] = spent.get(problem, 0.0) + time.process_time() - started
        check_plain(seen)
        return seen

    # What is said of letters holds for others too: an item that asks for rng gets its own.
    is_drawn = seed[0] != 0 and "rng" in request.fixturenames
    run.fresh = Fresh(seed if is_drawn else None)  # pyright: ignore[reportFunctionMemberAccess]
    return run


def adapter_in(error: BaseException) -> str:
    """Name the adapter that an exception came through."""
    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    return next((name for name in frames if name.startswith(ADAPTER_PREFIXES)), "an adapter")


def seed_everything(seed: int) -> None:
    """Make a submission's own randomness repeatable; it may draw from any of these."""
    import torch

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)


def check_plain(value: Any) -> None:
    """Refuse what could not cross to another process as a header and raw bytes."""
    if isinstance(value, dict):
        check_plain([*value.keys(), *value.values()])
    elif isinstance(value, list | tuple):
        for item in value:
            check_plain(item)
    elif not isinstance(value, np.ndarray | np.number | int | float | str | bytes | None):
        msg = f"a probe exchanges plain data only, not {type(value).__name__}"
        raise TypeError(msg)
