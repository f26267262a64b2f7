"""Where the processes of a submission note what a person has to look at.

    ledger = Ledger()                                   # in the server, before it forks
    ledger.write("code", "exec", file, line)            # in any process below it
    ledger.take()                                       # in the server: all that was written

The ledger is memory that all processes share. What a process writes is known at once, whatever
becomes of the process, and the processes that it forks write to the same ledger.

The ledger also lies in the submission's own memory: a submission that finds it can overwrite it. An
entry therefore proves no more than that somebody wrote it.
"""

import functools
import mmap
import sys
from pathlib import Path
from types import FrameType
from typing import NamedTuple

SIZE = 2**16
COUNT = 4
MOST_CHARACTERS = 300
KINDS = ("forbidden", "code")
HERE = str(Path(__file__).parent)
PROBES = "/probes"


class Entry(NamedTuple):
    """One note: what was done, and where."""

    kind: str
    """ "forbidden" (an operator that the problem is solved without) or "code" (what the source does
    not show)."""
    what: str
    file: str
    """Absolute path of the file that did it; "" if no file of a submission is on the stack."""
    line: int
    """Line in that file; 0 if there is none."""


class Ledger:
    """Entries that every process forked from here can add to."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, SIZE)

    def write(self, kind: str, what: str, file: str, line: int) -> None:
        """Add an entry, if there is room: the first ones say enough."""
        parts = (kind, what[:MOST_CHARACTERS], file[-MOST_CHARACTERS:], str(line))
        text = "\t".join(" ".join(part.split()) for part in parts) + "\n"
        entry = text.encode("utf-8", "replace")
        start = COUNT + self._used()
        if start + len(entry) <= SIZE:
            self.memory[start : start + len(entry)] = entry
            self.memory[:COUNT] = (start - COUNT + len(entry)).to_bytes(COUNT, "big")

    def take(self) -> list[Entry]:
        """Return the entries, without repetitions, in order, and forget them."""
        text = self.memory[COUNT : COUNT + self._used()].decode("utf-8", "replace")
        self.memory[:COUNT] = bytes(COUNT)
        return list(dict.fromkeys(filter(None, map(_entry, text.split("\n")))))

    def _used(self) -> int:
        return min(int.from_bytes(self.memory[:COUNT], "big"), SIZE - COUNT)


def _entry(line: str) -> Entry | None:
    kind, *rest = line.split("\t")
    if kind not in KINDS or len(rest) != 3 or not rest[2].isdecimal():
        return None
    what, file, number = rest
    return Entry(kind, what, file, int(number[:9]))


# --- who did it: the innermost line of a submission on the stack ---


def calling_place(frame: FrameType | None = None) -> tuple[str, int]:
    """Find the innermost line that belongs to no library and not to the grader.

    Args:
        frame: Where to begin; None: at the caller.

    Returns:
        File and line; "" and 0 if there is no such line.
    """
    frame = frame or sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "", 0


def is_own(file: str) -> bool:
    """Whether a file belongs to a submission, by its name."""
    if "site-packages" in file or file.startswith(("<", *_libraries())):
        return False
    folder = file.rpartition("/")[0]
    return folder != HERE and not folder.endswith(PROBES)


def is_made(file: str) -> bool:
    """Whether this is not a file but the name of code made from a text, which may be anybody's."""
    return file.startswith("<") and not file.startswith("<frozen")


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Where Python's own library is, and PyTorch, which may lie in a checkout of its own."""
    files = (getattr(sys.modules.get(name), "__file__", None) for name in ("os", "torch"))
    return tuple(f"{Path(file).parent}/" for file in files if file)
