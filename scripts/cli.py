"""Command lines of the scripts: flags from a signature, errors as one line, progress."""

import contextlib
import errno
import functools
import inspect
import io
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import tyro

# Before a cs_basics that is installed from elsewhere, such as the one that an edition was made of,
# but after PYTHONPATH, which comes after the folder of the script.
sys.path.insert(
    1 + sum(map(bool, os.environ.get("PYTHONPATH", "").split(os.pathsep))),
    str(Path(__file__).parents[1]),
)

from cs_basics.run.progress import OnProgress

TERMINAL_INTERVAL_S = 0.1
FILE_INTERVAL_S = 10.0
ROOT = Path(__file__).parents[1]
IS_EDITION = (ROOT / "tests" / "exam/stored.py").is_file()
"""Whether this is a student edition, which has stored answers."""
GIVEN = tuple(
    f"cs_basics/{folder}" for folder in ("interop", "run", "settings", "stories", "study")
)
"""Folders of the edition's cs_basics that are not the student's."""
_GIVEN_FILES = re.compile(
    rf"(cs_grader|scripts|.*site-packages|{'|'.join(GIVEN)})/"
    r"|cs_basics/(__init__|generate|training)\.py"
)
MOST_FRAMES = 6
WHAT_IS_WRONG = {
    errno.ENOENT: "does not exist: is the name right?",
    errno.EEXIST: "is there already: choose another name",
    errno.ENOTDIR: "cannot be: a part of that path is a file, not a folder",
    errno.EISDIR: "is a folder: name a file",
    errno.EACCES: "may not be read or written by you: see its permissions, and those of its folder",
    errno.EROFS: "cannot be written: its disk is read-only",
    errno.ENOSPC: "cannot be written: No space left on its disk",
    errno.EDQUOT: "cannot be written: your quota of its disk is used up",
    errno.EFBIG: "cannot be written: it would be larger than `ulimit -f` or its disk allows",
}
OURS = re.compile(r"(cs_basics|cs_grader|root|__main__)\b")
CLEAR_LINE = "\r\x1b[K"


def run(main: Callable[..., None]) -> None:
    """Call a script's main function with the flags of the command line.

    A bad flag, a bad input (ValueError, TypeError, OSError; OverflowError: too large a number), a
    program that fails and a function that is still to be written (NotImplementedError) become one
    line on stderr and exit code 2, Ctrl-C exit code 130. Whatever is raised in a student's code
    (`is_students`) is followed by the lines that led there. A reader that closes the pipe, such as
    `head`, ends the script quietly where it prints; where it logs, it goes on (`log_to_stdout`).
    """
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # Texts may hold any letter.
        given, named = _read_flags(main)
        main(*given, **named)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        sys.exit(141)
    except KeyboardInterrupt:
        print(f"{_clear_line()}interrupted", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        said = _said_of(error)
        if said is None:
            raise
        print(f"{_clear_line()}error: {said}", file=sys.stderr)
        sys.exit(2)


def _said_of(error: Exception) -> str | None:
    """Say what the user has to know of an exception; None: nobody has foreseen it."""
    if isinstance(error, NotImplementedError):
        return _what_is_missing(error)
    if _is_out_of_memory(error):
        reason = str(error).splitlines()[0][:200] if str(error) else "no more can be had"
        return f"not enough memory: {reason}"
    notes: list[str] = getattr(error, "__notes__", [])
    text = str(error)
    if isinstance(error, OSError) and error.filename is not None and error.errno in WHAT_IS_WRONG:
        text = f"{error.filename} {WHAT_IS_WRONG[error.errno]}"
    message = " ".join(" ".join([text, *notes]).split())
    if IS_EDITION and (said := _said_of_import(error)):
        return said
    if lines := _lines_of_the_student(error):
        return "\n".join([f"{type(error).__name__}: {message}", *lines])
    foreseen = (ValueError, TypeError, OverflowError, OSError, subprocess.CalledProcessError)
    return message if isinstance(error, foreseen) else None


def _lines_of_the_student(error: Exception) -> list[str]:
    """Describe the line of the student's that raised, and the calls that led there from ours.

    Returns:
        Nothing if the last line that ran outside of libraries is ours: then the message says it.
    """
    shown: list[str] = []
    called = [frame] if (frame := definition_called(error)) else []
    for frame in reversed([*traceback.extract_tb(error.__traceback__), *called]):
        path = Path(frame.filename)
        if not path.is_relative_to(ROOT) or "site-packages" in path.parts:
            continue
        is_theirs = is_students(path)
        if not (shown or is_theirs):
            return []
        called = "called by " if shown else ""
        place = f"{path.relative_to(ROOT)}, line {frame.lineno}, in {frame.name}"
        shown.append(f"  {called}{place}\n    {frame.line}")
        if not is_theirs:
            break
    if len(shown) > MOST_FRAMES:
        shown[MOST_FRAMES - 1 : -1] = ["  ..."]
    return shown


def definition_called(error: BaseException) -> traceback.FrameSummary | None:
    """Return where the student defines what a TypeError says was called with other arguments.

    Such an error is raised at the call, which may be ours: no line of the traceback is theirs.
    """
    named = re.match(r"([\w.]+)\(\) (?:got|takes|missing) ", str(error))
    if not (IS_EDITION and named and isinstance(error, TypeError)):
        return None
    for module in list(sys.modules.values()):
        if not is_students(Path(getattr(module, "__file__", None) or "")):
            continue
        with contextlib.suppress(AttributeError):
            found = inspect.unwrap(functools.reduce(getattr, named[1].split("."), module))
            code = found.__code__
            if is_students(Path(code.co_filename)):
                place = (code.co_filename, code.co_firstlineno, code.co_name)
                return traceback.FrameSummary(*place, lookup_line=True)
    return None


def _said_of_import(error: BaseException) -> str | None:
    """Say in one line why a module of the edition cannot be imported; None: it was not that."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(ROOT) and "site-packages" not in frame.filename
    ]
    path, line = (frames[-1].filename, frames[-1].lineno) if frames else ("", None)
    if isinstance(error, SyntaxError):
        path, line, said = error.filename or "", error.lineno, error.msg
    elif isinstance(error, ImportError):
        said = str(error).partition(" (")[0]
        if error.path and is_students(Path(error.path)) and not is_students(Path(path)):
            path, line = error.path, None
    elif any(frame.name == "<module>" and is_students(Path(frame.filename)) for frame in frames):
        said = " ".join(str(error).split())
    else:
        return None
    if not Path(path).is_relative_to(ROOT):
        return None
    at = f", line {line}" if line else ""
    return f"{type(error).__name__}: {said} ({Path(path).relative_to(ROOT)}{at})"


def report_import(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Take the place of Python's own report: scripts import the student's modules first of all."""
    if said := _said_of_import(error):
        print(f"error: {said}", file=sys.stderr, flush=True)
        raise SystemExit(2)
    sys.__excepthook__(kind, error, trace)


if IS_EDITION:
    sys.excepthook = report_import


def is_students(path: Path) -> bool:
    """Whether a file is the student's: any of an edition that is not given."""
    if not IS_EDITION or not path.is_relative_to(ROOT):
        return False
    return not _GIVEN_FILES.match(path.relative_to(ROOT).as_posix())


def _read_flags(main: Callable[..., None]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that the command line holds for a function.

    Raises:
        ValueError: tyro refuses the command line; the message is tyro's, without its box.
    """

    @functools.wraps(main)
    def keep(*given: Any, **named: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:  # noqa: ANN401
        return given, named

    boxed = io.StringIO()
    try:
        with contextlib.redirect_stderr(boxed):
            return tyro.cli(keep, config=(tyro.conf.OmitArgPrefixes,))
    except SystemExit as stop:
        if not stop.code:
            raise
        raise ValueError(_near_flag(keep, _without_box(boxed.getvalue()))) from None


def _near_flag(main: Callable[..., object], said: str) -> str:
    """Add to what tyro says of an unknown flag the near ones of its subcommand, such as a preset.

    tyro knows those that are spelt alike; --lr is also near --learning-rate, and --lerning-rate.
    """
    unknown = re.search(r"Unrecognized options: --([\w-]+)", said)
    if unknown is None or "Perhaps you meant" in said:
        return said
    first = [word for word in sys.argv[1:2] if not word.startswith("-")]
    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):
        tyro.cli(main, args=[*first, "--help"], config=(tyro.conf.OmitArgPrefixes,))
    usage, _, page = shown.getvalue().partition("\n")
    command = "".join(f" {word}" for word in first if f" {word} [" in usage)
    initials = "".join(word[0] for word in unknown[1].split("-"))
    near = f"Perhaps you meant: --{initials}. " if f"--{initials} " in page else ""
    return re.sub(r"See (\S+) --help", rf"{near}See \1{command} --help", said)


def names_in(arguments: Sequence[str]) -> set[str]:
    """Return the names of the settings whose flags are among the arguments."""
    flags = (argument.partition("=")[0] for argument in arguments if argument.startswith("--"))
    return {flag[2:].replace("-", "_").removeprefix("no_") for flag in flags}


def _without_box(text: str) -> str:
    """Return the text inside a box in one line, without help texts and repetitions."""
    lines = [line[2:].rstrip(" \u2502") for line in text.splitlines()[1:-1]]
    said: list[str] = []
    for section in re.split(r"^[\u2500-]{3,}$", "\n".join(lines), flags=re.MULTILINE):
        words = re.sub(r"^ {8}.*", "", section.strip().partition("\n\n")[0], flags=re.MULTILINE)
        if words.startswith("Perhaps you meant"):
            flags = dict.fromkeys(re.findall(r"^    (--[\w-]+)", section, re.MULTILINE))
            said.append(f"Perhaps you meant: {', '.join(flags)}")
        elif words.startswith("For full helptext"):
            see = words.split(None, 4)[-1]
            # The flags are on the page of the subcommand, such as a preset.
            of_command = see.replace(" --help", f" {' '.join(sys.argv[1:2])} --help")
            said.append(f"See {of_command if of_command in text else see}")
        elif words and not words.startswith("Argument helptext"):
            said.append(re.sub(r"^Error parsing (command[\w.]*: )?", "", words.strip()).rstrip("."))
    plain = re.sub(r" \(applied to [^)]*\)", "", ". ".join(said))
    return plain.replace("Available subcommands", "The first word is one of")


def _what_is_missing(error: NotImplementedError) -> str:
    """Name the function that somebody still has to write, and its file."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    code = frame.f_code
    if "site-packages" in code.co_filename:
        return str(error)  # PyTorch misses it, such as a `forward` that is spelt otherwise
    return f"{code.co_qualname} in {code.co_filename} is not written yet. {error}".rstrip()


def _is_out_of_memory(error: Exception) -> bool:
    # PyTorch has an exception class for GPUs only, and importing torch would take seconds.
    words = ("out of memory", "can't allocate memory", "not enough memory")
    is_torchs = isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    return is_torchs or isinstance(error, MemoryError)


def this_python() -> str:
    """Return what calls this interpreter in the user's terminal, such as .venv/bin/python."""
    if shutil.which("python") == sys.executable:
        return "python"
    path = Path(sys.executable)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def command_line(script: str, *arguments: object) -> str:
    """Return the command line of a script beside the running one, to be pasted into a shell."""
    path = Path(sys.argv[0]).with_name(f"{script}.py")
    return shlex.join([this_python(), *map(str, (path, *arguments))])


def check_can_write(path: Path, overwrite: bool = True, *, is_folder: bool = False) -> None:
    """Refuse an output file or folder that cannot be made, before any work is done.

    Raises:
        ValueError: It is a read-only folder, or is to be made in one, or in what is no folder; or
            it exists, and overwrite is not given, or is a file where there is to be a folder.
    """
    if is_folder and path.exists() and not path.is_dir():
        raise ValueError(f"--out {path} is a file: name a folder")
    if path.exists() and not overwrite:
        raise ValueError(f"--out {path} already exists: add --overwrite to replace it")
    folder = path if path.is_dir() else next(p for p in path.absolute().parents if p.exists())
    if not folder.is_dir():
        raise ValueError(f"{path} cannot be made: {folder} is not a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"{path} cannot be written: {folder} is read-only")


def log_to_stdout(level: int = logging.INFO) -> None:
    """Show what the library logs on stdout; when its reader is gone, the work goes on quietly."""
    handler = _Console(sys.stdout)
    # Of other packages, only what they warn of.
    handler.addFilter(lambda record: record.levelno > logging.INFO or bool(OURS.match(record.name)))
    logging.basicConfig(format="%(message)s", level=level, handlers=[handler], force=True)


class _Console(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  a name of logging's
        if isinstance(sys.exc_info()[1], BrokenPipeError):
            _discard_output()
        else:
            super().handleError(record)


def _discard_output() -> None:
    # Python flushes stdout again on exit, which would fail and print an error.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def progress_printer() -> OnProgress:
    """Make a callback that shows progress on stderr.

    On a terminal one line is rewritten; in a file, a line is added now and then.
    """
    interval_s = TERMINAL_INTERVAL_S if sys.stderr.isatty() else FILE_INTERVAL_S
    end = "" if sys.stderr.isatty() else "\n"
    shown_at, finished = time.monotonic(), ("", 0)
    began_at, began, last = shown_at, 0, ("", 0)

    def show(stage: str, unit: str, done: int, total: int) -> None:
        nonlocal shown_at, finished, began_at, began, last
        now = time.monotonic()
        if stage != last[0] or done < last[1]:
            began_at, began = now, done
        last = (stage, done)
        is_last, work = 0 < done == total, (stage, total)
        if is_last and work == finished:
            return  # Some work reports its end more than once.
        if not is_last and (now - shown_at < interval_s or now == began_at):
            return  # Too soon, or there is no rate yet.
        shown_at, finished = now, work if is_last else ("", 0)
        rate = (done - began) / (now - began_at) if now > began_at else 0.0
        line = _describe(stage, unit, done, total, rate)
        print(_clear_line() + line, end="\n" if is_last else end, file=sys.stderr, flush=True)

    return show


def print_result(line: str) -> None:
    """Print a line to stdout, replacing the line of progress on a terminal."""
    sys.stderr.write(_clear_line())
    sys.stderr.flush()
    print(line, flush=True)


def _clear_line() -> str:
    return CLEAR_LINE if sys.stderr.isatty() else ""


def _describe(stage: str, unit: str, done: int, total: int, rate: float) -> str:
    """One line such as "encoding: 12.0 of 100.1 MB (12%), 8.7 MB/s, 10 s left"."""
    scale, unit, digits = (1e6, "MB", 1) if unit == "bytes" else (1, unit, 0)
    line = f"{stage}: {done / scale:.{digits}f}"
    if total:
        line += f" of {total / scale:.{digits}f} {unit} ({done / total:.0%})"
    else:
        line += f" {unit}"
    if rate:
        shown, per = rate / scale, "s"
        if shown < 1 and unit != "MB":
            shown, per = 60 * shown, "min"
        if unit != "s":  # Seconds per second tell nothing.
            line += f", {shown:.{digits}f} {unit}/{per}"
        if total:
            line += f", {max(total - done, 0) / rate:.0f} s left"
    return line
