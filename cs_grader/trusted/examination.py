"""One submission from what was handed in to its result; the steps are those of `Examination.run`.

A clean copy is made, the examination runs over it in a process of its own with the submission in a
sandbox, and what comes back becomes points. The source is read as well, to say where things are.
"""

import dataclasses
import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cs_grader.plain_text import plain
from cs_grader.result import Result
from cs_grader.rules.check import Policy, check_apart
from cs_grader.sandbox.ledger import Entry
from cs_grader.sandbox.workplace import remove
from cs_grader.trusted.clean_copy import ADAPTERS, Copied, RefusedError
from cs_grader.trusted.copying import copy_submission, own_names, python_files
from cs_grader.trusted.hidden import key_for
from cs_grader.trusted.sandbox import Limits, Stage, set_the_stage

HERE = Path(__file__).parent
PREFIX, LOCK = "cs_grader-", "lock"
IN_USE: set[Path] = set()
"""Working folders of this process."""
# What a copy of a submission may take, twice, and all that belongs to the sandbox.
LEAST_FREE_BYTES = 256 * 2**20


class GradingError(RuntimeError):
    """The grader has failed: there is no verdict, whatever the submission."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What is the same for all submissions that are graded together."""

    tests: Path
    """The folder of the examination; nothing of a submission is ever written there."""
    isolation: str
    """How submissions are isolated: one of isolation.ISOLATIONS."""
    secret: str
    """What the hidden inputs are drawn from (hidden.py); "" if there are none."""
    problems: tuple[str, ...]
    """The problems to examine."""
    limits: Limits = dataclasses.field(default_factory=Limits)
    budget_s: float = 20 * 60
    """Seconds for one submission; what is not examined by then has failed."""


def check_tests(tests: Path) -> None:
    """Check that a folder holds an examination that can judge any input.

    Raises:
        ValueError: It does not.
    """
    if not (tests / "rubric.toml").is_file():
        raise ValueError(f"--tests {tests}: there is no rubric.toml in it")
    if (tests / "exam/stored.py").exists():
        raise ValueError(
            f"--tests {tests} is of a student edition, whose answers are stored and judge no other "
            "inputs: give the tests/ that make_starter.py --solution writes, or leave it out"
        )


def rubric_of(tests: Path) -> dict[str, dict[str, Any]]:
    """Read the problems, their points and their adapters."""
    return tomllib.loads((tests / "rubric.toml").read_text(encoding="utf-8"))


@dataclasses.dataclass(slots=True)
class Examination:
    """One submission and what is known of it so far.

    `verdict.result_of` makes a result of it at any time: what has not been examined has not been
    passed.
    """

    name: str
    """What it is called in the result."""
    terms: Terms
    on_item: Callable[["Examination"], None] = lambda _: None
    """Called when the items are known and after each of them."""
    handed_in_as: str = ""
    """The name of the file or folder."""
    started: float = dataclasses.field(default_factory=time.monotonic)
    copied: Copied = dataclasses.field(default_factory=Copied)
    unusable: str = ""
    """Why nothing of it can be examined."""
    source: Policy = dataclasses.field(default_factory=Policy)
    """What reading it says. It explains and attributes, and changes no mark."""
    stage: str = ""
    """Where the sandbox's folders are, for as long as the examination lasts."""
    plan: list[tuple[bool, str, str]] = dataclasses.field(
        default_factory=list[tuple[bool, str, str]]
    )
    """For each item, whether its inputs are hidden, its problem and its node id."""
    rows: dict[tuple[bool, str], dict[str, Any]] = dataclasses.field(
        default_factory=dict[tuple[bool, str], dict[str, Any]]
    )
    notes: list[tuple[bool, str, Entry]] = dataclasses.field(
        default_factory=list[tuple[bool, str, Entry]]
    )
    """What was noted while it ran: whether the item is hidden, its problem, and the note."""
    absent: list[list[Any]] = dataclasses.field(default_factory=list[list[Any]])
    """Packages that are not installed, and the file and line that import them."""
    import_note: str = ""
    output: str = ""
    fault: str = ""

    def run(
        self, source: Path, known: Callable[[str], Result | None] = lambda _: None
    ) -> Result | None:
        """Take all steps.

        Args:
            source: A folder or a zip.
            known: Given the content's key, returns a result that is at hand already.

        Returns:
            The result that is `known`; None if there is none and all items are examined now.

        Raises:
            GradingError: There is no verdict, for a reason that is not the submission's.
            OSError: There is no room for temporary files.
        """
        with _scratch_folder() as folder:
            with _step("copying"):
                stage = set_the_stage(folder / "stage", self.terms.tests)
                self.stage = str(stage.root)
                self._copy(source, stage)
                if (found := known(self.copied.key)) is not None:
                    return dataclasses.replace(found, submission=self.name)
            with _step("reading the source"):
                self._read_source(stage)
            with _step("examining"):
                self._examine(stage, folder)
        if self.fault or not self.plan or len(self.rows) < len(self.plan):
            missing = len(self.plan) - len(self.rows)
            raise GradingError(self.fault or f"{missing} items were not examined")
        return None

    def _copy(self, source: Path, stage: Stage) -> None:
        """Make the clean copy; what cannot be read is not examined, but graded all the same."""
        try:
            self.copied = copy_submission(source, stage.submission)
        except RefusedError as error:
            self.unusable = f"the submission cannot be read: {error}"
            shutil.rmtree(stage.submission, ignore_errors=True)
            stage.submission.mkdir(exist_ok=True)
        if not self.unusable and not (stage.submission / ADAPTERS).exists():
            self.unusable = why_no_adapters(stage.submission)

    def _read_source(self, stage: Stage) -> None:
        if not self.unusable:
            rubric = rubric_of(self.terms.tests)
            adapters = {name: entry["adapters"] for name, entry in rubric.items()}
            self.source = check_apart(python_files(stage.submission), adapters)

    def _examine(self, stage: Stage, folder: Path) -> None:
        """Run the examination in a process of its own and listen to it."""
        terms = self.terms
        listen, tell = os.pipe()
        (folder / "empty").mkdir()
        file = folder / "examination.json"
        file.touch(mode=0o600)  # It holds the key of the hidden inputs.
        asked = {
            "tests": str(terms.tests),
            "stage": str(stage.root),
            "isolation": terms.isolation,
            "limits": dataclasses.asdict(terms.limits),
            "worker": {"own_names": own_names(stage.submission)},
            "hidden_key": key_for(terms.secret, self.name, self.copied.key),
            "problems": list(terms.problems),
            "budget_s": terms.budget_s,
            "unusable": self.unusable,
            "rows": tell,
        }
        file.write_text(json.dumps(asked), encoding="utf-8")
        with (folder / "log").open("w+", encoding="utf-8", errors="replace") as log:
            try:
                process = subprocess.Popen(
                    _pytest(terms.tests, file),
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
                        if self.take(json.loads(line)) or not self.rows:
                            self.on_item(self)
                except BaseException:
                    process.kill()
                    raise
            if (process.returncode not in (0, 1) or not self.plan) and not self.fault:
                log.seek(0)
                words = plain(log.read()[-1000:], 1000)
                self.fault = f"the examination ended with status {process.returncode}: {words}"

    def take(self, message: dict[str, Any]) -> bool:
        """Take in what the examiner tells; return whether it is about an item."""
        for name, told in message.items():
            if name == "plan":
                self.plan = [(hidden, problem, item) for hidden, problem, item in told]
            elif name == "row":
                key = message["hidden"], told["item"]
                self.rows[key] = told
            elif name == "skipped":
                self.plan = [entry for entry in self.plan if entry[2] != told]
            elif name == "notes":
                about = message["hidden"], message["problem"]
                self.notes += [(*about, Entry(*entry)) for entry in told]
            elif name in ("absent", "import_note", "output", "fault"):
                setattr(self, name, told)
        return "row" in message


@contextmanager
def _step(name: str) -> Generator[None]:
    """Say in which step an exception was raised, whatever it is."""
    try:
        yield
    except Exception as error:
        raise GradingError(f"{name}: {type(error).__name__}: {error}") from error


def _pytest(tests: Path, examination: Path) -> Sequence[str]:
    files = sorted(map(str, tests.glob("test_*.py")))
    options = ["-c", str(HERE / "pytest.ini"), "--rootdir", str(tests.parent)]
    plugin = ["-p", "cs_grader.trusted.examiner", "--examine", str(examination)]
    return [sys.executable, "-P", "-B", "-m", "pytest", *options, *plugin, *files]


def _environment() -> dict[str, str]:
    kept = ("PATH", "HOME", "TMPDIR", "LANG", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    return environment | {
        "PYTHONPATH": str(HERE.parents[1]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def why_no_adapters(submission: Path) -> str:
    """Say what was handed in where the adapters should be."""
    files = sorted(path for path in submission.rglob("*") if path.is_file())
    if not files:
        return "the folder is empty"
    if not any(path.suffix in {".py", ".zip"} for path in files):
        return f"holds {files[0].relative_to(submission)} and no Python file"
    said = f"{ADAPTERS} is missing"
    for pattern in (ADAPTERS.name, "*.zip"):
        for path in sorted(submission.rglob(pattern))[:1]:
            said += f"; there is {path.relative_to(submission)}"
    return said


@contextmanager
def _scratch_folder() -> Generator[Path]:
    """A folder that is gone afterwards, whatever a submission has done to what is in it."""
    root = tempfile.gettempdir()
    if shutil.disk_usage(root).free < LEAST_FREE_BYTES:
        least = f"less than {LEAST_FREE_BYTES // 2**20} MB are free in {root}"
        raise OSError(errno.ENOSPC, f"{least}: free some, or set TMPDIR")
    folder, lock = _locked_folder()
    folder.chmod(0o711)
    (folder / "stage").mkdir()
    try:
        yield folder
    finally:
        with suppress(OSError):
            remove(folder)
            IN_USE.discard(folder)  # Not before: two that remove it at once disturb each other.
        os.close(lock)


def _locked_folder() -> tuple[Path, int]:
    """Make a working folder that is known to be in use, on this machine or any other."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        IN_USE.add(folder)
        # Only its owner may open it: a lock needs no more than that.
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder, lock
        os.close(lock)  # Another grader has taken it for the remains of one that was killed.


def remove_remains() -> None:
    """Remove the working folders of graders that were killed: nobody holds their locks."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        # Somebody holds the lock, or another grader removes it at this moment.
        with suppress(OSError), (folder / LOCK).open("r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if folder.stat().st_uid == os.getuid():
                remove(folder)


def remove_own_folders() -> None:
    """Remove the working folders of this process, which ends, while threads may still fill them."""
    for _ in range(100):
        for folder in tuple(IN_USE):
            with suppress(OSError):
                remove(folder)
        time.sleep(0.005)
