"""Grades many submissions, several at a time; a batch that was killed resumes where it was.

Each result is one file that appears whole, and holds the key of the content that it is about. The
terms of a batch, its secret among them, are written first, so that a resumed batch uses the same.
"""

import dataclasses
import errno
import hashlib
import json
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from cs_grader.plain_text import plain
from cs_grader.result import Result, write_atomically
from cs_grader.results.write import check_class, write_class, write_outputs
from cs_grader.trusted.clean_copy import RefusedError
from cs_grader.trusted.connection import TIME_IS_UP, time_is_up
from cs_grader.trusted.copying import copy_submission
from cs_grader.trusted.examination import Examination, GradingError, Terms, remove_own_folders
from cs_grader.trusted.hidden import name_of_secret
from cs_grader.trusted.submissions import Submission
from cs_grader.trusted.verdict import result_of

TERMS_FILE = "batch.json"
RESULT_FILE = "result.json"
MAX_FAULT = 300
FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Graded:
    """What became of one submission."""

    submission: Submission
    result: Result | None = None
    """None if there is no verdict."""
    fault: str = ""
    """Why there is none."""


def settle_terms(out: Path, terms: Terms, resume: bool) -> Terms:
    """Write down the terms of a batch, or take those that it was started with.

    Args:
        out: The folder of the results; made if it is not there.
        terms: What is asked for.
        resume: Go on with what is in the folder.

    Returns:
        The terms with the secret of the folder.

    Raises:
        ValueError: The folder holds results on other terms, or holds results without `resume`.
    """
    path = out / TERMS_FILE
    asked = _described(terms)
    out.mkdir(parents=True, exist_ok=True)
    if _is_first(path, json.dumps(asked, indent=1) + "\n"):
        return terms
    if not resume:
        raise ValueError(f"{out} holds results already: add --resume or choose another --out")
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
        secret = str(written["secret"])
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is damaged: choose another --out") from None
    for name in ("problems", "isolation", "examination"):
        if written.get(name) != asked[name]:
            raise ValueError(f"{out} was graded with other terms ({name}): choose another --out")
    return dataclasses.replace(terms, secret=secret)


def grade(
    submissions: Sequence[Submission],
    folder_of: Callable[[Submission], Path],
    terms: Terms,
    jobs: int = 1,
    on_item: Callable[[Examination], None] = lambda _: None,
    on_graded: Callable[[Graded], None] = lambda _: None,
) -> list[Graded]:
    """Grade submissions, or read the results that are there for the same content.

    Args:
        submissions: What to grade.
        folder_of: Where the outputs of each go.
        terms: How to grade all of them.
        jobs: How many at a time.
        on_item: Called after each item, from several threads.
        on_graded: Called after each submission, from this thread.

    Returns:
        What became of each, in the order of `submissions`.

    Raises:
        OSError: The disk is full.
    """
    waiting: SimpleQueue[Submission] = SimpleQueue()
    finished: SimpleQueue[Graded | OSError] = SimpleQueue()
    for submission in submissions:
        waiting.put(submission)

    def work() -> None:
        with suppress(Empty):
            while True:
                submission = waiting.get_nowait()
                try:
                    finished.put(_grade_one(submission, folder_of(submission), terms, on_item))
                except OSError as error:
                    finished.put(error)

    done: dict[str, Graded] = {}
    try:
        for _ in range(min(jobs, len(submissions))):
            # Daemons: an interrupted program does not wait for them, and what they started ends.
            threading.Thread(target=work, daemon=True).start()
        for _ in submissions:
            graded = finished.get()
            if isinstance(graded, OSError):
                raise graded
            done[graded.submission.name] = graded
            on_graded(graded)
    except BaseException:
        with suppress(Empty):  # A thread whose folder vanishes begins no other submission.
            while True:
                waiting.get_nowait()
        remove_own_folders()
        raise
    return [done[submission.name] for submission in submissions]


def _grade_one(
    submission: Submission, folder: Path, terms: Terms, on_item: Callable[[Examination], None]
) -> Graded:
    """Grade one submission; whatever goes wrong with it is its own fault alone."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        one = Examination(submission.name, terms, on_item, submission.handed_in_as)
        known = one.run(submission.source, lambda key: _known(folder, submission, key, terms))
        result = _adjusted(known or result_of(one), submission)
        write_outputs(result, folder)
        check_class(result)
        # Last: a resumed batch takes this file as the sign that all is done.
        write_atomically(folder / RESULT_FILE, result.to_json())
    except Exception as error:  # Of whatever type: the others are still to be graded.
        cause = error.__cause__ or error
        if isinstance(cause, OSError) and cause.errno in FULL:
            raise cause from None  # Nor could they be.
        words = (
            str(error) if isinstance(error, GradingError) else f"{type(error).__name__}: {error}"
        )
        return Graded(submission=submission, fault=plain(words, MAX_FAULT))
    return Graded(submission=submission, result=result)


def _adjusted(result: Result, submission: Submission) -> Result:
    """A result with the adjustments of now, which may be others than when it was graded."""
    return dataclasses.replace(result, adjustments=submission.adjustments)


def look_up(
    submissions: Sequence[Submission], folder_of: Callable[[Submission], Path]
) -> list[Graded]:
    """Read the results that are about what is handed in now, and write their outputs again.

    Args:
        submissions: Whose results.
        folder_of: Where each has its own.

    Returns:
        What became of each; without a result, what is wrong with it.
    """
    graded: list[Graded] = []
    for submission in submissions:
        path = folder_of(submission) / RESULT_FILE
        try:
            result = Result.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            graded.append(Graded(submission=submission, fault="not graded yet"))
        except (OSError, ValueError) as error:
            fault = plain(f"{RESULT_FILE}: {error}", MAX_FAULT)
            graded.append(Graded(submission=submission, fault=fault))
        else:
            if result.handed_in_as != submission.handed_in_as:
                graded.append(Graded(submission=submission, fault="not graded yet"))
                continue
            if result.key != _key_of(submission):
                fault = "handed in anew: grade it with --resume"
                graded.append(Graded(submission=submission, fault=fault))
                continue
            result = dataclasses.replace(_adjusted(result, submission), submission=submission.name)
            write_outputs(result, path.parent)
            graded.append(Graded(submission=submission, result=result))
    return graded


def write_gradebook(graded: Sequence[Graded], out: Path, about: Sequence[str] = ()) -> None:
    """Write the outputs on the whole class, with some words about it."""
    results = [one.result for one in graded if one.result is not None]
    faults = {one.submission.name: one.fault for one in graded if one.fault}
    people = {one.submission.name: one.submission for one in graded}
    who = {name: (one.people, one.addresses) for name, one in people.items() if one.people}
    write_class(results, out, faults, who, about)


def _is_first(path: Path, text: str) -> bool:
    """Write a private file unless there is one: of several processes exactly one is the first."""
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=f".{path.name}.", encoding="utf-8"
    ) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
        try:
            os.link(file.name, path)
        except FileExistsError:
            return False
        except OSError:  # A file system without links: there it may be half written after a kill.
            return _is_created(path, text)
    return True


def _is_created(path: Path, text: str) -> bool:
    try:
        path.touch(0o600, exist_ok=False)
    except FileExistsError:
        return False
    path.write_text(text, encoding="utf-8")
    return True


def _described(terms: Terms) -> dict[str, object]:
    return {
        "secret": terms.secret,
        "problems": list(terms.problems),
        "isolation": terms.isolation,
        "examination": _digest(terms.tests),
    }


def _digest(tests: Path) -> str:
    """SHA-256 of the examination: results of another one are not to be mixed with these."""
    total = hashlib.sha256()
    files = [*tests.glob("*.toml"), *tests.glob("*.py"), *tests.glob("exam/**/*.py")]
    for path in sorted(files):
        if path.name != "adapters.py":
            total.update(path.relative_to(tests).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def _key_of(submission: Submission) -> str:
    """The key of what is handed in; "" if it cannot be read, as of a result that says so."""
    with tempfile.TemporaryDirectory() as folder, suppress(RefusedError):
        return copy_submission(submission.source, Path(folder) / "copy").key
    return ""


def _known(folder: Path, submission: Submission, key: str, terms: Terms) -> Result | None:
    """Read the result of an earlier run if it is about this content of this name."""
    try:
        result = Result.from_json((folder / RESULT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    is_same = result.key == key and key != "" and result.handed_in_as == submission.handed_in_as
    is_same = is_same and result.secret == name_of_secret(terms.secret)
    # Given another time limit, what was not examined may be examined now.
    had_other_time = any(
        item.message.startswith(TIME_IS_UP) and item.message != time_is_up(terms.budget_s)
        for item in result.items
    )
    return result if is_same and not had_other_time else None
