"""Command lines of the scripts: flags from a signature, errors as one line, progress."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import tyro

from cs_basics.run.progress import OnProgress, Progress

TERMINAL_INTERVAL_S = 0.1
FILE_INTERVAL_S = 10.0
CLEAR_LINE = "\r\x1b[K"


def run(main: Callable[..., None]) -> None:
    """Call a script's main function with the flags of the command line.

    A bad input (ValueError, TypeError, OSError) and a function that is still to be written
    (NotImplementedError) become one line on stderr and exit code 2, Ctrl-C exit code 130. A reader
    that closes the pipe, such as `head`, ends the script quietly.
    """
    try:
        tyro.cli(main, config=(tyro.conf.OmitArgPrefixes,))
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes stdout again on exit, which would fail and print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except (ValueError, TypeError, OSError) as error:
        notes: list[str] = getattr(error, "__notes__", [])
        message = " ".join(" ".join([str(error), *notes]).split())
        print(f"{_clear_line()}error: {message}", file=sys.stderr)
        sys.exit(2)
    except NotImplementedError as error:
        print(f"{_clear_line()}error: {_what_is_missing(error)}", file=sys.stderr)
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        reason = str(error).splitlines()[0][:200] if str(error) else "no more can be had"
        print(f"{_clear_line()}error: not enough memory: {reason}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print(f"{_clear_line()}interrupted", file=sys.stderr)
        sys.exit(130)


def _what_is_missing(error: NotImplementedError) -> str:
    """Name the function that somebody still has to write, and its file."""
    raised_at = error.__traceback__
    while raised_at is not None and raised_at.tb_next is not None:
        raised_at = raised_at.tb_next
    if raised_at is None:
        return str(error)
    code = raised_at.tb_frame.f_code
    return f"{code.co_qualname} in {code.co_filename} is not written yet. {error}".rstrip()


def _is_out_of_memory(error: Exception) -> bool:
    # PyTorch has an exception class for GPUs only, and importing torch would take seconds.
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)


def check_can_write(path: Path) -> None:
    """Refuse an output file or folder that cannot be made, before any work is done.

    Raises:
        ValueError: Its parent is not a folder, or is read-only.
    """
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not above.is_dir():
        raise ValueError(f"{path} cannot be made: {above} is not a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise ValueError(f"{path} cannot be made: {above} is read-only")


def progress_printer() -> OnProgress:
    """Make a callback that shows progress on stderr.

    On a terminal one line is rewritten; in a file, a line is added now and then.
    """
    interval_s = TERMINAL_INTERVAL_S if sys.stderr.isatty() else FILE_INTERVAL_S
    end = "" if sys.stderr.isatty() else "\n"
    shown_at, finished = time.monotonic(), ("", 0)

    def show(progress: Progress) -> None:
        nonlocal shown_at, finished
        now = time.monotonic()
        is_last, work = progress.done == progress.total, (progress.stage, progress.total)
        if is_last and work == finished:
            return  # Some work reports its end more than once.
        if not is_last and now - shown_at < interval_s:
            return
        shown_at, finished = now, work if is_last else ("", 0)
        print(_clear_line() + _describe(progress), end="\n" if is_last else end, file=sys.stderr)
        sys.stderr.flush()

    return show


def print_result(line: str) -> None:
    """Print a line to stdout, replacing the line of progress on a terminal."""
    sys.stderr.write(_clear_line())
    sys.stderr.flush()
    print(line, flush=True)


def _clear_line() -> str:
    return CLEAR_LINE if sys.stderr.isatty() else ""


def _describe(progress: Progress) -> str:
    """One line such as "encoding: 12.0 of 100.1 MB (12%), 8.7 MB/s, 10 s left"."""
    scale, unit = (1e6, "MB") if progress.unit == "bytes" else (1, progress.unit)
    digits = 1 if progress.unit == "bytes" else 0
    line = f"{progress.stage}: {progress.done / scale:.{digits}f}"
    if progress.total:
        line += f" of {progress.total / scale:.{digits}f} {unit} "
        line += f"({progress.done / progress.total:.0%})"
    else:
        line += f" {unit}"
    rate, per = progress.rate / scale, "s"
    if rate < 1 and unit != "MB":
        rate, per = 60 * rate, "min"
    line += f", {rate:.{digits}f} {unit}/{per}"
    if progress.remaining_s is not None:
        line += f", {progress.remaining_s:.0f} s left"
    return line
