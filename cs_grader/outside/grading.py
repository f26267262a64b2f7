"""One submission from what was handed in to its result.

A clean copy is made, its source is read for what is forbidden, the examination runs over it in a
process of its own with the submission in a sandbox, and what comes back becomes points.
"""

import dataclasses
import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from cs_grader.inside.removal import remove
from cs_grader.outside.clean_copy import ADAPTERS, RefusedError
from cs_grader.outside.copying import copy_submission, own_names, python_files
from cs_grader.outside.hidden import key_for
from cs_grader.outside.marking import Marking
from cs_grader.outside.stage import Stage, set_the_stage
from cs_grader.outside.terms import Terms, rubric_of
from cs_grader.policy.apart import check_apart
from cs_grader.result import Result, printable

HERE = Path(__file__).parent
# What a copy of a submission may take, twice, and all that belongs to the sandbox.
LEAST_FREE_BYTES = 256 * 2**20


class GradingError(RuntimeError):
    """The grader has failed: there is no verdict, whatever the submission."""


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
        with _stage("copying"):
            stage = set_the_stage(folder / "stage", terms.tests)
            marking.stage = str(stage.root)
            _copy(marking, source, stage)
            found = known(marking.copied.key)
            if found is not None:
                return dataclasses.replace(found, submission=name)
        with _stage("reading the source"):
            _read_source(marking, stage)
        with _stage("examining"):
            _examine(marking, stage, folder, on_item)
    if not marking.is_complete:
        missing = len(marking.plan) - len(marking.rows)
        raise GradingError(marking.fault or f"{missing} items were not examined")
    with _stage("marking"):
        return marking.result()


@contextmanager
def _stage(name: str) -> Generator[None]:
    """Say in which stage an exception was raised, whatever it is."""
    try:
        yield
    except Exception as error:
        raise GradingError(f"{name}: {type(error).__name__}: {error}") from error


def _copy(marking: Marking, source: Path, stage: Stage) -> None:
    """Make the clean copy; what cannot be read is not examined, but graded all the same."""
    try:
        marking.copied = copy_submission(source, stage.submission)
    except RefusedError as error:
        marking.hopeless = f"the submission cannot be read: {error}"
        shutil.rmtree(stage.submission, ignore_errors=True)
        stage.submission.mkdir(exist_ok=True)


def _read_source(marking: Marking, stage: Stage) -> None:
    if marking.hopeless:
        return
    if not (stage.submission / ADAPTERS).exists():
        marking.hopeless = f"{ADAPTERS} is missing"
        for pattern in (ADAPTERS.name, "*.zip"):
            for path in sorted(stage.submission.rglob(pattern))[:1]:
                marking.hopeless += f"; there is {path.relative_to(stage.submission)}"
        return
    adapters = {name: entry["adapters"] for name, entry in rubric_of(marking.terms.tests).items()}
    marking.source = check_apart(python_files(stage.submission), adapters)


def _examine(
    marking: Marking, stage: Stage, folder: Path, on_item: Callable[[Marking], None]
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
        },
        "excused": excused,
        "hidden_key": key_for(terms.secret, marking.name, marking.copied.key),
        "problems": list(terms.problems),
        "budget_s": terms.budget_s,
        "hopeless": marking.hopeless,
        "rows": tell,
    }
    (folder / "empty").mkdir()
    file = folder / "examination.json"
    file.touch(mode=0o600)  # It holds the key of the hidden inputs.
    file.write_text(json.dumps(examination, default=sorted), encoding="utf-8")
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
    options = ["-c", str(HERE / "pytest.ini"), "--rootdir", str(tests.parent)]
    plugin = ["-p", "cs_grader.outside.examiner", "--examine", str(examination)]
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


@contextmanager
def _scratch_folder() -> Generator[Path]:
    """A folder that is gone afterwards, whatever a submission has done to what is in it."""
    root = tempfile.gettempdir()
    if shutil.disk_usage(root).free < LEAST_FREE_BYTES:
        words = (
            f"less than {LEAST_FREE_BYTES // 2**20} MB are free in {root}: free some, set TMPDIR"
        )
        raise OSError(errno.ENOSPC, words)
    folder = Path(tempfile.mkdtemp(prefix=f"cs_grader-{os.getpid()}-"))
    folder.chmod(0o711)
    (folder / "stage").mkdir()
    try:
        yield folder
    finally:
        with suppress(OSError):
            remove(folder)
