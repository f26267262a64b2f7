"""One submission from its source to its result.

A clean copy is made, its source is read for what is forbidden, the examination runs over it in a
process of its own with the submission in a sandbox, and what comes back becomes points.
"""

import dataclasses
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cs_grader import policy, sandbox
from cs_grader.blocked import Call
from cs_grader.result import Finding, Item, Problem, Result, printable
from cs_grader.submissions import (
    ADAPTERS,
    Copied,
    RefusedError,
    copy_submission,
    own_names,
    python_files,
)

PACKAGE = Path(__file__).parent
MAX_MESSAGE = 4000
MAX_NOTE = 300
MAX_OUTPUT = 20_000
NOT_RUN = "not examined"
# What differs from run to run and says nothing: addresses, names of temporary files.
ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")
TEMPORARY = re.compile(r"/(?:[\w.-]+/)*(?:tmp|submission-|pymp-)[a-z0-9_]{8}\b")
FORBIDDEN = "forbidden-operator"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What is the same for all submissions that are graded together."""

    tests: Path
    """The folder of the examination; nothing of a submission is ever written there."""
    tier: str
    """How submissions are walled off: one of sandbox.TIERS."""
    seeds: tuple[int, ...]
    """The public seed, 0, and those of the hidden inputs."""
    problems: tuple[str, ...]
    """The problems to examine."""
    packages: tuple[str, ...] = ()
    """Folders of packages that submissions may import besides what is installed."""
    limits: sandbox.Limits = dataclasses.field(default_factory=sandbox.Limits)
    budget_s: float = 20 * 60
    """Time for one submission; what is not examined then has failed."""


class GradingError(RuntimeError):
    """The grader has failed: there is no verdict, whatever the submission."""


def rubric_of(tests: Path) -> dict[str, dict[str, Any]]:
    """Read the problems, their points and their adapters."""
    return tomllib.loads((tests / "rubric.toml").read_text(encoding="utf-8"))


@dataclasses.dataclass(slots=True)
class Marking:
    """What is known of one submission so far; `result` can be asked for at any time."""

    name: str
    terms: Terms
    started: float = dataclasses.field(default_factory=time.monotonic)
    copied: Copied = dataclasses.field(default_factory=Copied)
    hopeless: str = ""
    """Why nothing of it can be examined."""
    plan: list[tuple[int, str, str]] = dataclasses.field(default_factory=list[tuple[int, str, str]])
    """Seed, problem and node id of each item."""
    rows: dict[tuple[int, str], dict[str, Any]] = dataclasses.field(
        default_factory=dict[tuple[int, str], dict[str, Any]]
    )
    calls: dict[str, list[Call]] = dataclasses.field(default_factory=dict[str, list[Call]])
    absent: list[list[Any]] = dataclasses.field(default_factory=list[list[Any]])
    import_note: str = ""
    output: str = ""
    fault: str = ""
    stage: str = ""
    """Where the sandbox's folders are, for as long as the examination lasts."""
    source: policy.Policy | None = None

    @property
    def is_complete(self) -> bool:
        """Whether every item has been examined."""
        return bool(self.plan) and len(self.rows) == len(self.plan) and not self.fault

    def take(self, message: dict[str, Any]) -> bool:
        """Take in what the examiner tells; return whether it is about an item."""
        if "plan" in message:
            self.plan = [(seed, problem, item) for seed, problem, item in message["plan"]]
        elif "row" in message:
            row = message["row"]
            self.rows[message["seed"], row["item"]] = row | {"seconds": message["seconds"]}
        elif "skipped" in message:
            self.plan = [entry for entry in self.plan if entry[2] != message["skipped"]]
        elif "calls" in message:
            calls = self.calls.setdefault(message["problem"], [])
            calls += [Call(*call) for call in message["calls"]]
        elif "absent" in message:
            self.absent = message["absent"]
        elif "import" in message:
            self.import_note = message["import"]
        elif "output" in message:
            self.output = message["output"]
        elif "fault" in message:
            self.fault = message["fault"]
        return "row" in message

    def result(self) -> Result:
        """Make a result of what is known; what has not been examined has not been passed."""
        items = tuple(self._item(*planned) for planned in self.plan)
        problems = tuple(
            _problem(name, entry, [item for item in items if item.problem == name])
            for name, entry in rubric_of(self.terms.tests).items()
            if name in self.terms.problems
        )
        findings = (
            policy.settle(
                self.source,
                self.calls,
                self.terms.problems,
                failed=[problem.problem for problem in problems if problem.failed],
            )
            if self.source
            else ()
        )
        return Result(
            submission=self.name,
            key=self.copied.key,
            isolation=self.terms.tier,
            exam_seeds=self.terms.seeds,
            note=self._note(),
            score=round(sum(problem.points for problem in problems), 6),
            max_score=float(sum(problem.max_points for problem in problems)),
            seconds=round(time.monotonic() - self.started, 3),
            problems=problems,
            items=items,
            policy=tuple(map(_printable_finding, findings)),
            output=printable(self._steady(_without_repeats(self.output)), MAX_OUTPUT),
        )

    def _item(self, seed: int, problem: str, node: str) -> Item:
        row = self.rows.get((seed, node))
        condemned = self.source.condemned.get(problem) if self.source else None
        if row is None:
            outcome, diagnosis, message = "error", None, NOT_RUN
        elif condemned is not None and row["outcome"] != "not_started":
            outcome, diagnosis = "failed", FORBIDDEN
            message = f"{condemned.message} ({condemned.file}, line {condemned.line})"
        else:
            outcome, diagnosis, message = row["outcome"], row["diagnosis"], row["message"]
        return Item(
            problem=problem,
            item=node,
            outcome=outcome,
            diagnosis=diagnosis and printable(diagnosis, 200),
            message=printable(self._steady(message), MAX_MESSAGE),
            is_hidden=seed != 0,
            seconds=row["seconds"] if row else 0.0,
        )

    def _steady(self, text: str) -> str:
        """Replace what would make the words of two runs differ."""
        if self.stage:
            text = text.replace(f"{self.stage}/submission/", "").replace(self.stage, "/grading")
        return ADDRESS.sub("0x...", TEMPORARY.sub("/tmp/...", text))

    def _note(self) -> str:
        parts = [self.hopeless or self._steady(self.import_note)]
        parts += [
            f"not installed: {package} ({file}, line {line})" for package, file, line in self.absent
        ]
        parts += [f"left out {reason}" for reason in self.copied.left_out[:3]]
        if len(self.copied.left_out) > 3:
            parts.append(f"{len(self.copied.left_out) - 3} more left out")
        line = " ".join("; ".join(part for part in parts if part).split())
        return printable(line, MAX_NOTE)


def mark(
    name: str,
    source: Path,
    terms: Terms,
    on_item: Callable[[Marking], None] = lambda _: None,
    known: Callable[[str], Result | None] = lambda _: None,
) -> Result:
    """Examine one submission.

    Args:
        name: What it is called in the result.
        source: A folder or a zip.
        terms: How to examine it.
        on_item: Called when the items are known and after each of them.
        known: Given the content's key, returns a result that is at hand already.

    Returns:
        The result, complete.

    Raises:
        GradingError: There is no verdict, for a reason that is not the submission's.
    """
    marking = Marking(name, terms)
    with _scratch_folder() as folder:
        try:
            stage = sandbox.set_the_stage(folder / "stage", terms.tests)
            marking.stage = str(stage.root)
            _take_in(marking, source, stage)
            found = known(marking.copied.key)
            if found is not None:
                return dataclasses.replace(found, submission=name)
            _examine(marking, stage, folder, on_item)
        except OSError as error:
            raise GradingError(f"{name}: {error}") from error
    if not marking.is_complete:
        missing = len(marking.plan) - len(marking.rows)
        raise GradingError(f"{name}: {marking.fault or f'{missing} items were not examined'}")
    return marking.result()


def _take_in(marking: Marking, source: Path, stage: sandbox.Stage) -> None:
    """Make the clean copy and read its source."""
    try:
        marking.copied = copy_submission(source, stage.submission)
    except RefusedError as error:
        marking.hopeless = f"the submission cannot be read: {error}"
        shutil.rmtree(stage.submission, ignore_errors=True)
        stage.submission.mkdir(exist_ok=True)
        return
    if not (stage.submission / ADAPTERS).exists():
        elsewhere = sorted(stage.submission.rglob(ADAPTERS.name))
        marking.hopeless = f"{ADAPTERS} is missing"
        if elsewhere:
            there = elsewhere[0].relative_to(stage.submission)
            marking.hopeless += f"; there is {there}"
        return
    adapters = {name: entry["adapters"] for name, entry in rubric_of(marking.terms.tests).items()}
    marking.source = policy.check_apart(python_files(stage.submission), adapters)


def _examine(
    marking: Marking, stage: sandbox.Stage, folder: Path, on_item: Callable[[Marking], None]
) -> None:
    """Run the examination in a process of its own and listen to it."""
    terms = marking.terms
    listen, tell = os.pipe()
    excused = marking.source.excused if marking.source else {}
    examination = {
        "tests": str(terms.tests),
        "stage": str(stage.root),
        "tier": terms.tier,
        "limits": dataclasses.asdict(terms.limits),
        "worker": {
            "packages": list(terms.packages),
            "own_names": own_names(stage.submission),
            "excused": {problem: sorted(groups) for problem, groups in excused.items()},
        },
        "seeds": list(terms.seeds),
        "problems": list(terms.problems),
        "budget_s": terms.budget_s,
        "hopeless": marking.hopeless,
        "rows": tell,
    }
    (folder / "empty").mkdir()
    (folder / "examination.json").write_text(json.dumps(examination), encoding="utf-8")
    with (folder / "log").open("w+", encoding="utf-8", errors="replace") as log:
        try:
            process = subprocess.Popen(
                _pytest(terms.tests, folder / "examination.json"),
                cwd=folder / "empty",
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[tell],
            )
        finally:
            os.close(tell)
        with process, os.fdopen(listen, encoding="utf-8") as lines:
            try:
                for line in lines:
                    if marking.take(json.loads(line)) or not marking.rows:
                        on_item(marking)
            except BaseException:
                process.kill()
                raise
        if (process.returncode not in (0, 1) or not marking.plan) and not marking.fault:
            log.seek(0)
            words = printable(log.read()[-1000:], 1000)
            marking.fault = f"the examination ended with status {process.returncode}: {words}"


def _pytest(tests: Path, examination: Path) -> Sequence[str]:
    files = sorted(map(str, tests.glob("test_*.py")))
    options = ["-c", str(PACKAGE / "pytest.ini"), "--rootdir", str(tests.parent)]
    plugin = ["-p", "cs_grader.examiner", "--examine", str(examination)]
    return [sys.executable, "-P", "-B", "-m", "pytest", *options, *plugin, *files]


def _environment() -> dict[str, str]:
    kept = ("PATH", "HOME", "TMPDIR", "LANG", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    return environment | {
        "PYTHONPATH": str(PACKAGE.parent),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


@contextmanager
def _scratch_folder() -> Generator[Path]:
    """A folder that is gone afterwards, whatever a submission has done to what is in it."""
    folder = Path(tempfile.mkdtemp(prefix=f"cs_grader-{os.getpid()}-"))
    folder.chmod(0o711)
    (folder / "stage").mkdir()
    try:
        yield folder
    finally:
        for path, _, _ in os.walk(folder, followlinks=False):
            Path(path).chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)


def _problem(name: str, entry: dict[str, Any], items: Sequence[Item]) -> Problem:
    passed = sum(item.outcome == "passed" for item in items)
    not_started = sum(item.outcome == "not_started" for item in items)
    return Problem(
        problem=name,
        title=entry["title"],
        points=round(entry["points"] * passed / len(items), 6) if items else 0.0,
        max_points=float(entry["points"]),
        passed=passed,
        failed=len(items) - passed - not_started,
        not_started=not_started,
    )


def _without_repeats(text: str) -> str:
    """Write a line that repeats once, with a mark: how often is chance, and tells nobody more."""
    lines: list[str] = []
    for line, group in itertools.groupby(text.splitlines()):
        lines += [line, "(the same again)"] if sum(1 for _ in group) > 1 else [line]
    return "\n".join(lines)


def _printable_finding(finding: Finding) -> Finding:
    return dataclasses.replace(
        finding,
        operator=printable(finding.operator, 200),
        file=printable(finding.file, 300),
        message=printable(finding.message, 1000),
    )
