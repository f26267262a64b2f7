"""What a failure says: what was asked, what came, and from which lines."""

import sysconfig
import traceback
from pathlib import Path

import pytest
from compare import NotStarted, WrongAnswer
from lacking import place_of_syntax, text_of, what_to_do

TESTS = Path(__file__).parents[1]
PROBES = TESTS / "exam" / "probes"


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
    said = f"{type(error).__name__}: {text_of(error)}"
    # A forbidden operator says by itself where it was called.
    is_placed = getattr(error, "diagnosis", "") == "forbidden-operator" and said.endswith(")")
    place = "" if is_placed else place_of_error(error)
    return f"{said}{f' ({place})' if place else ''}{what_to_do(error)}{notes}"


def place_of_error(error: BaseException) -> str:
    """The last line of the submission; "" if there is none, as for a call that it cannot take."""
    if unread := place_of_syntax(error):
        return f"{Path(unread[0]).name}, line {unread[1]}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.name != "stop"]
    own = [f for f in frames if not is_of_others(Path(f.filename))]
    return f"{Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""


def is_of_others(path: Path) -> bool:
    """Tell packages, Python's own modules, the examination and the rule from a submission."""
    is_pythons = path.is_relative_to(sysconfig.get_path("stdlib")) or str(path).startswith("<")
    # A grader shows probes under another folder; adapters.py may lie in the one of the items.
    is_probe = path.parent.name == PROBES.name and (PROBES / path.name).exists()
    is_ours = path.is_relative_to(TESTS) and path.name != "adapters.py"
    is_a_test = path.is_relative_to(TESTS / "project")
    is_examination = is_probe or "cs_grader" in path.parts or (is_ours and not is_a_test)
    return is_pythons or "site-packages" in path.parts or is_examination
