"""The clean copy of a submission: only harmless names, ordinary permissions, limited sizes.

Nothing is created outside of the copy. What is left out is remembered, by name and reason.
"""

import errno
import os
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from cs_grader.plain_text import plain

ADAPTERS = PurePosixPath("tests/adapters.py")
MAX_FILE_BYTES = 64 * 2**20
# Limit for files that are not source: checkpoints and data must not take the solution's room.
MAX_DATA_BYTES = 100 * 2**20
# Of the source, several copies are made in the grader's own process.
MAX_SOURCE_BYTES = 20 * 2**20
MAX_FILES, MAX_DATA_FILES = 5000, 4000
MAX_ENTRIES = 100_000
MAX_DEPTH = 20
MAX_NAME_BYTES = 200
MAX_REASONS = 20
CHUNK = 2**20
# Categories of Unicode: controls, halves of pairs, unassigned letters, line and paragraph breaks.
CONTROLS = frozenset({"Cc", "Cs", "Cn", "Zl", "Zp"})
# Never part of a solution: what systems, editors and tools leave behind.
JUNK = frozenset(
    {
        *("__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini", ".git", ".hg", ".svn", ".venv"),
        *("venv", "env", "__pycache__", ".ipynb_checkpoints", ".idea", ".vscode", ".pytest_cache"),
        *(".mypy_cache", ".ruff_cache", ".tox", "node_modules", "wandb", ".eggs", "site-packages"),
    }
)
# How libraries and programs of Linux, macOS and Windows begin, whatever the file is called: nobody
# can read them, and no blocked operator notices what they do.
COMPILED = (
    *(b"\x7fELF", b"MZ\x90\x00", b"\xca\xfe\xba\xbe"),
    *(b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xfe\xed\xfa\xcf", b"\xfe\xed\xfa\xce"),
)
# Errors that come from a file's name or place; others, such as a full disk, are the grader's own.
FAULTS_OF_NAMES = (
    errno.ENAMETOOLONG,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EINVAL,
    errno.EILSEQ,
)
JUNK_SUFFIXES = (".pyc", ".pyo", ".egg-info", ".dist-info", ".swp")


class RefusedError(ValueError):
    """A submission, or an entry, is not taken; the message says why."""


@dataclass(slots=True)
class Copied:
    """What became of the copy."""

    key: str = ""
    """SHA-256 of names and contents, the same for a folder and a zip."""
    num_files: int = 0
    num_source_bytes: int = 0
    """Of files that are Python."""
    num_data_files: int = 0
    num_data_bytes: int = 0
    """Of all others."""
    left_out: list[str] = field(default_factory=list[str])
    """Name and reason of what was refused, at most MAX_REASONS."""

    def leave_out(self, name: str, reason: str) -> None:
        """Remember that something was refused."""
        if len(self.left_out) < MAX_REASONS:
            self.left_out.append(f"{plain(name, 100)}: {reason}")


def is_junk(name: str) -> bool:
    """Return whether a file or folder of this name is never part of a solution."""
    return name in JUNK or name.endswith(JUNK_SUFFIXES) or name.startswith("._")


def normal(name: str) -> str:
    """Return a name with accents composed, as in Python's imports, unlike in macOS's file names."""
    return unicodedata.normalize("NFC", name)


class CleanCopy:
    """A folder that fills with the harmless files of a submission."""

    def __init__(self, folder: Path) -> None:
        """Make the folder.

        Raises:
            FileExistsError: There is one of this name.
        """
        folder.mkdir()
        self.folder = folder
        self.copied = Copied()
        # A folder Tests that comes first must not hide the adapters.
        tests = str(ADAPTERS.parent)
        self.taken = {tests: tests}

    def accepts(self, name: str) -> bool:
        """Decide whether a file of this name is copied; each name is accepted once."""
        reason = self.reason_against(name)
        if reason:
            self.copied.leave_out(name, reason)
            return False
        path = PurePosixPath(name)
        for part in (path, *path.parents):
            self.taken.setdefault(str(part).casefold(), str(part))
        return True

    def reason_against(self, name: str) -> str:
        """Say why a name is not used; "" if it is."""
        parts = name.split("/")
        if name.startswith("/") or (len(name) > 1 and name[1] == ":"):
            return "an absolute path"
        if "\\" in name:
            return "a backslash in the name"
        if ".." in parts:
            return "leads out of the submission"
        if any(unicodedata.category(letter) in CONTROLS for letter in name):
            return "a name with control characters"
        if len(parts) > MAX_DEPTH:
            return "too deep"
        if any(not 0 < len(os.fsencode(part)) <= MAX_NAME_BYTES or part == "." for part in parts):
            return "an empty or overlong name"
        return self.clash(PurePosixPath(name))

    def clash(self, path: PurePosixPath) -> str:
        """Say so if another entry has this name, or one that some systems take for the same."""
        for part in (path, *path.parents):
            known = self.taken.get(str(part).casefold())
            if known is not None and (part == path or known != str(part)):
                return f"the same name as {known}"
        return ""

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        """Write one file whose name was accepted; leave it out if it is too large, or compiled.

        Raises:
            RefusedError: The files are too many.
            OSError: The disk is full, or the like: not the submission's fault.
        """
        if self.copied.num_files >= MAX_FILES:
            raise RefusedError(f"more than {MAX_FILES} files")
        path = self.folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            if error.errno not in FAULTS_OF_NAMES:
                raise
            self.copied.leave_out(name, f"cannot be copied ({error.strerror})")
            return
        is_source = name.endswith(".py")
        written, reason = 0, ""
        with os.fdopen(handle, "wb") as file:
            for chunk in chunks:
                written += len(chunk)
                reason = self.excess(written, is_source=is_source)
                if written == len(chunk) and chunk.startswith(COMPILED):
                    reason = "compiled code: hand in its source"
                if reason:
                    break
                file.write(chunk)
        if reason:
            path.unlink()
            self.copied.leave_out(name, reason)
            return
        self.copied.num_files += 1
        if is_source:
            self.copied.num_source_bytes += written
        else:
            self.copied.num_data_files += 1
            self.copied.num_data_bytes += written

    def excess(self, written: int, *, is_source: bool) -> str:
        """Say why a file of so many bytes is too large; "" if it is not."""
        if written > MAX_FILE_BYTES:
            return f"larger than {MAX_FILE_BYTES // 2**20} MB"
        if is_source and self.copied.num_source_bytes + written > MAX_SOURCE_BYTES:
            return f"more than {MAX_SOURCE_BYTES // 2**20} MB of source"
        if not is_source and self.copied.num_data_bytes + written > MAX_DATA_BYTES:
            return f"more than {MAX_DATA_BYTES // 2**20} MB besides the source"
        if not is_source and self.copied.num_data_files >= MAX_DATA_FILES:
            return f"more than {MAX_DATA_FILES} files besides the source"
        return ""

    def remove(self, name: str) -> None:
        """Take back a file that could not be written whole."""
        (self.folder / name).unlink(missing_ok=True)
