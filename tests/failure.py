"""What a failure says: what was asked, what came, from which lines, and where to look."""

import contextlib
import sysconfig
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import contract
import guard
import pytest
from compare import NotStarted, WrongAnswer, id_of
from lacking import place_of_syntax, text_of, what_to_do

try:
    import places
except ImportError:  # The student edition has stored answers, and nothing that computes others.
    places = None

PROBES = Path(__file__).parent / "probes"
# At most so many wrong answers of a problem are traced until something is found.
MOST_TRACED = 3
MOST_SECONDS_TRACED = 5.0


def show_own_frames(error: pytest.ExceptionInfo[BaseException]) -> None:
    """Reduce the traceback of an exception in a submission to the frames that its author knows."""
    paths = [Path(str(frame.path)) for frame in error.traceback]
    through = [place for place, path in enumerate(paths) if path.parent == PROBES]
    if through and len(paths) > through[-1] + 1 and isinstance(error.value, Exception):
        error.traceback = type(error.traceback)(error.traceback[through[-1] + 1 :])


def say_what_was_asked(error: BaseException, question: str) -> None:
    """Begin a wrong answer's message with the call that it is the answer to."""
    if isinstance(error, WrongAnswer) and question:
        error.msg = f"asked for {question}\n{error.msg}"


def say_which_contract(error: BaseException) -> None:
    """Name the cause if adapters have the usual contract's argument names and not this one's."""
    here = contract.current()
    unknown = "unexpected keyword argument"
    if any(f"{unknown} '{new}'" in str(error) for new in here.renamed.values()):
        there = contract.DEFAULT.says("argument_names")
        said = f"the code solves another contract: there {there}"
        error.add_note(f"{said} (here {here.says('argument_names')})")
        error.diagnosis = id_of(said)  # pyright: ignore[reportAttributeAccessIssue]


def say_where_it_goes_wrong(
    error: WrongAnswer,
    run: Callable[..., Any],
    inputs: dict[str, Any],
    tries: Counter[str | None],
    problem: str | None,
) -> None:
    """End the first wrong answers of a problem with the line to look at, and a small example.

    Args:
        error: The failure; its message is changed.
        run: Runs a probe against the submission.
        inputs: What the probe was given.
        tries: How many failures of each problem were traced already; counted up.
        problem: The problem.
    """
    if places is None or tries[problem] >= MOST_TRACED:
        return
    tries[problem] += 1
    # What cannot be traced stays unexplained; a grader's sandbox may end a trace with pytest.fail.
    unexplained = (Exception, guard.OutOfTimeError, pytest.fail.Exception)
    with contextlib.suppress(*unexplained), guard.guarded(MOST_SECONDS_TRACED):
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
    place = f"({place_of_error(error)}){what_to_do(error)}"
    return f"{type(error).__name__}: {text_of(error)} {place}{notes}"


def place_of_error(error: BaseException) -> str:
    """The last line outside of libraries; the last of all if there is none, as for a fixture."""
    if unread := place_of_syntax(error):
        return f"{Path(unread[0]).name}, line {unread[1]}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.name != "stop"]
    own = [f for f in frames if not is_of_a_library(Path(f.filename))]
    frame = (own or frames)[-1]
    return f"{Path(frame.filename).name}, line {frame.lineno}"


def is_of_a_library(path: Path) -> bool:
    """Tell packages, Python's own modules and the examination's probes from a submission."""
    is_pythons = path.is_relative_to(sysconfig.get_path("stdlib")) or str(path).startswith("<")
    return is_pythons or "site-packages" in path.parts or path.parent == PROBES
