"""The pytest plugin that runs the examination against a submission in a sandbox.

    python -m pytest -p cs_grader.trusted.examiner --examine FILE tests/test_*.py

FILE holds what is Asked as JSON; what becomes of each item goes to a file descriptor, a JSON
object on each line. The examination itself is the one that a student runs at home, file by file:
here its probes are stand-ins which send their names and inputs into the sandbox, so that this
process computes what is right and never holds a line of the submission. It does not even import
torch, for which only probes have a use.
"""

import ast
import contextlib
import dataclasses
import functools
import importlib
import json
import os
import posixpath
import random
import sys
from collections.abc import Callable, Collection, Generator, Sequence
from itertools import zip_longest
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from cs_grader.rules.names import group_of
from cs_grader.sandbox import confine
from cs_grader.sandbox.forbidden import OWN
from cs_grader.sandbox.processes import HAS_PROC
from cs_grader.trusted.answer import Answer, Frame
from cs_grader.trusted.connection import Connection, SandboxError
from cs_grader.trusted.hidden import seed_in_sandbox, seed_of_inputs
from cs_grader.trusted.measured import MEASURING
from cs_grader.trusted.sandbox import Limits, Stage

FORBIDDEN = "ForbiddenOperator"
OWN_MEMORY_BYTES = 2 * 2**30
# An import that takes longer is not repeated for each item that is wrong.
SLOW_IMPORT_S = 3.0
NOT_HERE = "/a-folder-that-is-not-here"
NOWHERE = Frame("the submission", 0, "<module>")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What is to be examined, where, and whom to tell (examination.py)."""

    tests: str
    stage: str
    isolation: str
    limits: dict[str, Any]
    worker: dict[str, Any]
    """Settings of the worker that depend on the submission."""
    hidden_key: str
    """What this submission's hidden inputs are drawn from (hidden.py); "" if there are none."""
    problems: list[str]
    """The problems to examine, in order."""
    budget_s: float
    unusable: str
    """Why nothing can be run, which every item then says; "" if it can."""
    rows: int
    """File descriptor for what becomes of the items."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the file."""
    parser.addoption("--examine", type=Path, metavar="FILE", help="what is Asked, as JSON")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Read the file and put the stand-ins in place, before anything of the examination."""
    path: Path = early_config.known_args_namespace.examine
    examination = Asked(**json.loads(path.read_text(encoding="utf-8")))
    confine.die_with_parent()
    confine.adopt_orphans()
    # What is compared here was made by a submission: if it is too large, the item fails.
    confine.limit_memory(OWN_MEMORY_BYTES)
    # Whatever is started from here on must not hold the other end open.
    os.set_inheritable(examination.rows, False)
    early_config.pluginmanager.register(Examiner(examination), "examiner")


class Examiner:
    """Runs the items and tells what becomes of them."""

    def __init__(self, examination: Asked) -> None:
        self.examination = examination
        self.rows = os.fdopen(examination.rows, "w", encoding="utf-8")
        self.adapters = RemoteAdapters(
            Connection(
                examination.isolation,
                Stage(root=Path(examination.stage)),
                Limits(**examination.limits),
                examination.worker,
                examination.budget_s,
            ),
            self.tell,
            examination.unusable,
        )
        self.is_hidden = False
        self.is_wrong = False
        """Whether the last item that was run has failed."""
        self.row: dict[str, Any] = {}
        self.seconds = 0.0
        put_stand_ins(Path(examination.tests), self.adapters)

    def tell(self, row: dict[str, Any]) -> None:
        """Send one line; the reader may be gone."""
        with contextlib.suppress(BrokenPipeError):
            self.rows.write(json.dumps(row) + "\n")
            self.rows.flush()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all items on public inputs, then those that draw inputs on hidden ones.

        A student sees what is said about public items. When they run nothing hidden has entered
        the sandbox yet, so that nothing hidden can be in what they say.
        """
        if session.testsfailed:
            raise session.Interrupted("the examination cannot be collected")
        blocks = {
            (is_hidden, problem): [
                item
                for item in session.items
                if problem_of(item) == problem and (not is_hidden or draws_inputs(item))
            ]
            for is_hidden in ((False, True) if self.examination.hidden_key else (False,))
            for problem in self.examination.problems
        }
        plan = [(hidden, name, item) for (hidden, name), items in blocks.items() for item in items]
        self.tell({"plan": [[hidden, problem, item.nodeid] for hidden, problem, item in plan]})
        for (is_hidden, problem), items in blocks.items():
            self.is_hidden = self.adapters.is_hidden = is_hidden
            self.adapters.problem = problem
            if not self.run_together(items):
                self.run_apart(items)
        return True

    def run_together(self, items: Sequence[pytest.Item]) -> bool:
        """Run items in one process, until one is wrong; return whether that is all there is to do.

        Of a submission whose import takes long, all items run, in an order that it does not know:
        what it has counted then tells it nothing about the item.
        """
        self.adapters.process += 1
        self.adapters.load(None)
        is_slow = self.adapters.import_s >= SLOW_IMPORT_S
        if is_slow:
            items = random.Random(self.examination.hidden_key).sample(items, len(items))
        for item, following in zip_longest(items, items[1:]):
            self.run(item, following)
            if self.is_wrong and not is_slow:
                return False
        return True

    def run_apart(self, items: Sequence[pytest.Item]) -> None:
        """Run each item in a process of its own, on inputs that none has seen: only this counts.

        So what an earlier item has left behind makes no other wrong, or right.
        """
        for item, following in zip_longest(items, items[1:]):
            self.adapters.process += 1
            self.run(item, following, " once more")

    def run(self, item: pytest.Item, following: pytest.Item | None, draw: str = "") -> None:
        """Run an item and tell what became of it.

        One that is stopped by the operator of another problem runs once more with it. What that
        costs follows from all rows (tests/exam/points.py).

        Args:
            item: The item.
            following: The one after it, for which fixtures may be kept.
            draw: Names the inputs that are drawn for it, if they are hidden.
        """
        lent: set[str] = set()
        first = self.run_once(item, following, draw, lent)
        while first and (more := self.adapters.stopped_by_others() - lent):
            lent |= more
            again = self.run_once(item, following, draw, lent)
            first |= {"borrowed": sorted({OWN[group] for group in lent})}
            first |= {"with_borrowed": again["outcome"]}
        if first.get("outcome") == "failed":
            first |= self.by_the_handout(first, item, following, draw, lent)
        self.is_wrong = first.get("outcome") in ("failed", "error")
        if first:
            self.tell({"row": first, "hidden": self.is_hidden})

    def by_the_handout(self, row: dict[str, Any], *asked: Any) -> dict[str, Any]:  # noqa: ANN401
        """What is new of an item that is wrong by a convention of the class alone."""
        conventions = importlib.import_module("conventions")  # The examination's, on the path now.
        return conventions.asked_by_the_handout(
            row, lambda: self.run_once(*asked).get("outcome", "")
        )

    def run_once(
        self, item: pytest.Item, following: pytest.Item | None, draw: str, lent: Collection[str]
    ) -> dict[str, Any]:
        """Run an item from its fixtures to its report; return its row, empty if it was skipped."""
        key, name = self.examination.hidden_key, item.nodeid + draw
        item.config.option.exam_seed = seed_of_inputs(key, name) if self.is_hidden else 0
        seed = seed_in_sandbox(key, name) if self.is_hidden else None
        self.adapters.begin(item.nodeid, seed, sorted(lent))
        self.row = {}
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return self.row

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self) -> Generator[None, object, object]:
        """Fail an item that cannot read an answer: probes return what it can, so this is forged.

        So is one that says that nothing can be measured: what is measured, this system can tell.
        """
        try:
            return (yield)
        except pytest.skip.Exception as error:
            if not (self.adapters.has_answer and HAS_PROC):
                raise
            raise Ended(f"what came cannot be measured, which it can be here ({error})") from None
        except Exception as error:
            if hasattr(error, "is_of_submission"):
                raise
            words = f"what came is nothing that the probe returns ({type(error).__name__})"
            raise Ended(words) from None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what became of an item; one that this machine cannot examine does not count."""
        if report.skipped:
            self.tell({"skipped": report.nodeid})
        self.seconds = report.duration + (0.0 if report.when == "setup" else self.seconds)
        properties: list[tuple[str, Any]] = report.user_properties
        for name, row in properties:
            if name == "examination":
                self.row = row | {"seconds": round(self.seconds, 4)}

    def pytest_internalerror(self, excrepr: object) -> None:
        """Tell that the grader is at fault."""
        self.tell({"fault": str(excrepr)[-2000:]})

    def pytest_sessionfinish(self) -> None:
        """Take the sandbox down and tell what was printed in it."""
        self.tell({"output": self.adapters.connection.close()})
        self.rows.close()


def problem_of(item: pytest.Item) -> str:
    """Name the problem that an item examines."""
    marker = item.get_closest_marker("problem")
    return marker.args[0] if marker and marker.args else ""


def draws_inputs(item: pytest.Item) -> bool:
    """Whether an item asks for random numbers."""
    names: Sequence[str] = getattr(item, "fixturenames", ())
    return "rng" in names


# --- what stands in for the probes and the adapters ---


class RemoteAdapters:
    """Stands for the adapters in the sandbox."""

    def __init__(
        self,
        connection: Connection,
        tell: Callable[[dict[str, Any]], None],
        unusable: str,
    ) -> None:
        self.connection = connection
        self.tell = tell
        self.unusable = unusable
        self.process = 0
        """A number for the process that probes run in."""
        self.item = ""
        self.used = 0
        """The process that was used last."""
        self.has_answer = False
        """Whether a probe of this item has answered."""
        self.import_s = 0.0
        self.problem = ""
        self.is_hidden = False
        self.seed = 0
        self.hidden_seed: int | None = None
        """Sent into the sandbox instead of a hidden item's seed, which would give inputs away."""
        self.lent: Sequence[str] = ()
        """Groups of operators that may be called although the problem forbids them."""
        self.stopped: set[str] = set()
        """Groups of operators that have stopped a probe of this item."""

    def begin(self, item: str, hidden_seed: int | None, lent: Sequence[str]) -> None:
        """Prepare for the probes of an item."""
        self.item, self.hidden_seed, self.lent = item, hidden_seed, lent
        self.has_answer, self.stopped = False, set()

    def stopped_by_others(self) -> set[str]:
        """The groups of operators that have stopped this item and do another problem's work."""
        return {group for group in self.stopped if OWN[group] != self.problem}

    def load(self, _root: object) -> "RemoteAdapters":
        """Import the submission; tell why that fails, or what is not installed."""
        if self.unusable:
            return self
        answer = self.ask_sandbox(
            lambda: self.connection.import_adapters(self.process, self.problem, self.lent)
        )
        self.import_s = answer.import_s
        self.tell({"absent": [list(one) for one in answer.absent]})
        if answer.ended != "imported" and answer.kind != FORBIDDEN:
            self.tell({"import_note": import_note(answer)})
        return self

    def set_seed(self, seed: int) -> None:
        """Remember the seed of the next probe."""
        self.seed = seed if self.hidden_seed is None else self.hidden_seed

    def run(self, module: str, probe: str, inputs: dict[str, Any]) -> Any:  # noqa: ANN401
        """Run a probe in the sandbox; return what it saw or raise what it raised."""
        if self.unusable:
            raise Ended(self.unusable)
        self.process += probe in MEASURING and self.process == self.used
        self.used = self.process
        where, what = (self.process, self.problem), (module, probe, self.seed, inputs)
        answer = self.ask_sandbox(lambda: self.connection.run(*where, *what, self.lent, self.item))
        self.has_answer |= answer.ended == "returned"
        if answer.kind == FORBIDDEN:
            groups = {group_of(entry.what) for entry in answer.noted if entry.kind == "forbidden"}
            self.stopped |= {group for group in groups if group}
        if answer.ended == "returned":
            return answer.value
        if answer.during_import and answer.kind != FORBIDDEN:
            raise Ended(f"tests/adapters.py cannot be imported: {import_note(answer)}")
        if answer.ended == "raised":
            raise_like(answer, self)
        raise Ended(answer.text or "no answer")

    def ask_sandbox(self, ask: Callable[[], Answer]) -> Answer:
        """Ask and tell what was noted, or end the examination if there is no sandbox to ask."""
        try:
            answer = ask()
        except SandboxError as error:
            self.tell({"fault": str(error)})
            raise NoSandbox(str(error)) from None
        if answer.noted:
            notes = [list(entry) for entry in answer.noted]
            self.tell({"notes": notes, "problem": self.problem, "hidden": self.is_hidden})
        return answer


class NoSandbox(KeyboardInterrupt):  # Nothing else ends pytest from a fixture.
    """There is nowhere to run a submission."""


class Ended(pytest.fail.Exception):
    """The process that ran a probe is gone."""

    __module__ = "builtins"

    def __init__(self, message: str) -> None:
        super().__init__(message, pytrace=False)


def import_note(answer: Answer) -> str:
    """Say in a line why the submission cannot be imported."""
    if answer.ended != "raised":
        is_exit = answer.text.startswith("exited")
        return f"left during import ({answer.text})" if is_exit else f"{answer.text} during import"
    file, line, _ = answer.frames[-1] if answer.frames else NOWHERE
    # Python adds the place to the message of a SyntaxError, without the folder.
    text = answer.text.removesuffix(f" ({Path(file).name}, line {line})")
    return f"{file}: line {line}: {answer.kind}: {text}"


def raise_like(answer: Answer, adapters: RemoteAdapters) -> NoReturn:
    """Raise an exception of the same name, with the same message, from the same lines."""
    if answer.missing is not None:
        error = AttributeError(answer.text, name=answer.missing, obj=adapters)
    else:
        base: type[Exception] = NotImplementedError if answer.is_not_implemented else Exception
        file, line, _ = (answer.frames or (NOWHERE,))[-1]
        # The place is added below, which Python has in the message of a SyntaxError already.
        text = answer.text.removesuffix(f" ({Path(file).name}, line {line})")
        error = cast(type[Exception], type(answer.kind, (base,), {}))(text)
    if answer.kind == FORBIDDEN:
        error.diagnosis = "forbidden-operator"  # pyright: ignore[reportAttributeAccessIssue]
    error.is_of_submission = True  # pyright: ignore[reportAttributeAccessIssue]
    path: Callable[[], None] | None = None
    for frame in reversed(answer.frames or (NOWHERE,)):
        path = functools.partial(exec, code_of(frame, path is None), {"error": error, "go": path})
    assert path is not None
    path()
    raise error


def code_of(frame: Frame, is_innermost: bool) -> Any:  # noqa: ANN401  # No type has a public name.
    """Compile a line that a traceback shows as this one; the line itself stays in the sandbox."""
    # Not under a name that the sandbox chose: whoever formats a traceback opens the file.
    file = NOT_HERE + posixpath.normpath(f"/{frame.file}")
    code = compile("raise error" if is_innermost else "go()", file, "exec")
    return code.replace(co_name=frame.function, co_firstlineno=max(frame.line, 1))


def put_stand_ins(tests: Path, adapters: RemoteAdapters) -> None:
    """Have the examination import stand-ins instead of what would run a submission here."""
    sys.path.insert(0, str(tests / "exam"))
    submission = ModuleType("submission")
    submission.__dict__["load_adapters"] = adapters.load
    torch = ModuleType("torch")
    # All that the examination uses of torch outside of probes.
    torch.__dict__["cuda"] = SimpleNamespace(is_available=lambda: False)
    torch.__dict__["default_generator"] = SimpleNamespace(manual_seed=adapters.set_seed)
    probes = ModuleType("probes")
    probes.__path__ = []
    sys.modules |= {"submission": submission, "torch": torch, "probes": probes}
    for file in sorted((tests / "exam/probes").glob("*.py")):
        module = ModuleType(f"probes.{file.stem}")
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                module.__dict__[node.name] = stand_in(module.__name__, node.name)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                with contextlib.suppress(ValueError):
                    module.__dict__[node.targets[0].id] = ast.literal_eval(node.value)
        sys.modules[module.__name__] = module


def stand_in(module: str, name: str) -> Callable[..., Any]:
    """Make a function that is called like a probe and runs it in the sandbox."""

    def probe(adapters: RemoteAdapters, **inputs: Any) -> Any:  # noqa: ANN401
        return adapters.run(module, name, inputs)

    probe.__name__ = name
    return probe


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what a terminal would show out of reports: nobody looks, and texts can be long."""
    report = yield
    report.sections.clear()
    return report
