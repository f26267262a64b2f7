"""What a failure says: what was asked, what came, and from which lines."""

import contextlib
import platform
import sysconfig
import tomllib
import traceback
from pathlib import Path

import pytest
from compare import NotStarted, WrongAnswer
from packaging.specifiers import SpecifierSet

PROBES = Path(__file__).parent / "probes"


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
    return f"{type(error).__name__}: {error} ({place_of_error(error)}){notes}"


def place_of_error(error: BaseException) -> str:
    """The last line outside of libraries; the last of all if there is none, as for a fixture."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.name != "stop"]
    own = [f for f in frames if not is_of_a_library(Path(f.filename))]
    frame = (own or frames)[-1]
    return f"{Path(frame.filename).name}, line {frame.lineno}"


def is_of_a_library(path: Path) -> bool:
    """Tell packages, Python's own modules and the examination's probes from a submission."""
    is_pythons = path.is_relative_to(sysconfig.get_path("stdlib")) or str(path).startswith("<")
    return is_pythons or "site-packages" in path.parts or path.parent == PROBES


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
