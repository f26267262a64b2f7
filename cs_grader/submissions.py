"""What was handed in, a folder (or git checkout) or a zip, becomes a clean copy.

Only regular files with harmless names are copied, by their content, with ordinary permissions. No
link is followed, nothing is created outside of the copy, and size, number and depth are limited.
What is left out is said, by name and reason.
"""

import contextlib
import hashlib
import os
import shutil
import stat
import tokenize
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from cs_grader.result import printable

MAX_BYTES = 200 * 2**20
MAX_FILE_BYTES = 64 * 2**20
MAX_FILES = 5000
MAX_ENTRIES = 100_000
MAX_DEPTH = 20
MAX_NAME_BYTES = 200
# A text compresses to a tenth, source to a fifth; what shrinks more than this is a bomb.
MAX_RATIO, RATIO_COUNTS_FROM = 200, 2**20
MAX_REASONS = 20
# Never part of a solution: what systems, editors and tools leave behind.
JUNK = frozenset(
    {
        *("__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini", ".git", ".hg", ".svn", ".venv"),
        *("venv", "env", "__pycache__", ".ipynb_checkpoints", ".idea", ".vscode", ".pytest_cache"),
        *(".mypy_cache", ".ruff_cache", ".tox", "node_modules", "wandb", ".eggs", "site-packages"),
    }
)
JUNK_SUFFIXES = (".pyc", ".pyo", ".egg-info", ".dist-info", ".swp")
ADAPTERS = PurePosixPath("tests/adapters.py")
CHUNK = 2**20


class RefusedError(ValueError):
    """The whole submission cannot be read."""


@dataclass(frozen=True, slots=True)
class Submission:
    """One thing that was handed in."""

    name: str
    """What it is called in gradebook and folders; unique, short, printable."""
    source: Path


@dataclass(slots=True)
class Copied:
    """What became of the copy."""

    key: str = ""
    """SHA-256 of names and contents, whatever they came in."""
    num_files: int = 0
    num_bytes: int = 0
    left_out: list[str] = field(default_factory=list[str])
    """Name and reason of what was refused, at most MAX_REASONS."""

    def leave_out(self, name: str, reason: str) -> None:
        """Remember that something was refused."""
        if len(self.left_out) < MAX_REASONS:
            self.left_out.append(f"{printable(name, 100)}: {reason}")


def find_submissions(path: Path) -> tuple[list[Submission], bool]:
    """Find what there is to grade.

    Args:
        path: A zip, a submission's folder, or a folder of such.

    Returns:
        The submissions by name, and whether it is a folder of them.

    Raises:
        ValueError: There is nothing to grade.
    """
    if path.is_file():
        if not zipfile.is_zipfile(path):
            raise ValueError(f"{path} is neither a folder nor a zip")
        return [Submission(name_of(path), path)], False
    if not path.is_dir():
        raise ValueError(f"{path} does not exist")
    if looks_like_a_submission(path):
        return [Submission(name_of(path), path)], False
    found: dict[str, Submission] = {}
    for entry in sorted(path.iterdir()):
        if entry.name in JUNK or entry.name.startswith(".") or entry.is_symlink():
            continue
        if entry.is_dir() or entry.suffix.lower() == ".zip":
            name = name_of(entry)
            while name.casefold() in found:
                name += "-2"
            found[name.casefold()] = Submission(name, entry)
    if not found:
        raise ValueError(f"{path} holds no submission: neither folders nor zips")
    return sorted(found.values(), key=lambda submission: submission.name), True


def looks_like_a_submission(folder: Path) -> bool:
    """Whether a folder is one submission, not a folder of them."""
    marks = ("tests", "src", "pyproject.toml", "setup.py", ".git", "adapters.py", "README.md")
    return any((folder / mark).exists() for mark in marks) or any(folder.glob("*.py"))


def name_of(path: Path) -> str:
    """Make a name for people, folders and tables out of a file's name."""
    stem = path.stem if path.suffix.lower() == ".zip" and not path.is_dir() else path.name
    name = "".join(letter if letter.isalnum() or letter in " ._-@+=,()" else "_" for letter in stem)
    return name.strip(". ")[:80] or "submission"


def copy_submission(source: Path, to: Path) -> Copied:
    """Make a clean copy of a submission, without the top folder that zips often have.

    Args:
        source: A folder or a zip; not changed.
        to: A folder that does not exist.

    Raises:
        RefusedError: It is not a zip, or too large to be a solution.
        OSError: It cannot be read or written at all.
    """
    copied = Copied()
    to.mkdir()
    if source.is_dir():
        _copy_folder(source, to, copied)
    else:
        try:
            _extract(source, to, copied)
        except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError) as error:
            raise RefusedError(f"the zip is damaged ({error})") from None
    _lift_top_folder(to)
    copied.key = key_of(to)
    return copied


def key_of(folder: Path) -> str:
    """Return the SHA-256 of the names and contents of all files."""
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        total.update(hashlib.sha256(path.relative_to(folder).as_posix().encode()).digest())
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def python_files(folder: Path) -> dict[str, str]:
    """Read the Python files of a clean copy as text, each in the encoding that it declares."""
    return {
        path.relative_to(folder).as_posix(): _source_of(path)
        for path in sorted(folder.rglob("*.py"))
    }


def own_names(folder: Path) -> list[str]:
    """Return the modules and packages that an import finds in the submission itself."""
    return sorted(
        {
            path.stem if path.is_file() else path.name
            for root in (folder, folder / "src", folder / "tests")
            if root.is_dir()
            for path in root.iterdir()
            if path.is_dir() or path.suffix == ".py"
        }
    )


# --- folders ---


def _copy_folder(source: Path, to: Path, copied: Copied) -> None:
    names = _Names(copied)
    for relative, entry in _entries(source, copied):
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            copied.leave_out(str(relative), "a link")
        elif not stat.S_ISREG(mode):
            copied.leave_out(str(relative), "not a file")
        elif names.accepts(str(relative)):
            try:
                # Between the look and the opening it could have become a link.
                handle = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError as error:
                copied.leave_out(str(relative), f"cannot be read ({error.strerror})")
                continue
            with os.fdopen(handle, "rb") as file:
                _write(iter(lambda file=file: file.read(CHUNK), b""), to, str(relative), copied)


def _entries(source: Path, copied: Copied) -> Iterator[tuple[PurePosixPath, os.DirEntry[str]]]:
    """Walk through a folder in order, without what is junk; folders are entered, not returned."""
    seen = 0
    stack = [PurePosixPath()]
    while stack:
        folder = stack.pop()
        try:
            entries = sorted(os.scandir(source / folder), key=lambda entry: entry.name)
        except OSError as error:
            copied.leave_out(str(folder), f"cannot be read ({error.strerror})")
            continue
        for entry in entries:
            seen += 1
            if seen > MAX_ENTRIES:
                raise RefusedError(f"more than {MAX_ENTRIES} files and folders")
            if is_junk(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                if len(folder.parts) >= MAX_DEPTH:
                    copied.leave_out(str(folder / entry.name), "too deep")
                else:
                    stack.append(folder / entry.name)
            else:
                yield folder / entry.name, entry


def is_junk(name: str) -> bool:
    """Whether a file or folder of this name is never part of a solution."""
    return name in JUNK or name.endswith(JUNK_SUFFIXES) or name.startswith("._")


# --- zips ---


def _extract(source: Path, to: Path, copied: Copied) -> None:
    with zipfile.ZipFile(source) as archive:
        entries = archive.infolist()
        if len(entries) > MAX_ENTRIES:
            raise RefusedError(f"more than {MAX_ENTRIES} entries in the zip")
        names = _Names(copied)
        for entry in entries:
            name = _name_in_zip(entry)
            if name is None:
                copied.leave_out(entry.filename, "a name that is not UTF-8")
            elif entry.is_dir() or any(map(is_junk, name.split("/"))):
                continue
            elif entry.flag_bits & 0x1:
                copied.leave_out(name, "encrypted")
            elif stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
                copied.leave_out(name, "a link or a device")
            elif names.accepts(name):
                _extract_one(archive, entry, name, to, copied)


def _extract_one(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str, to: Path, copied: Copied
) -> None:
    is_bomb = entry.file_size > RATIO_COUNTS_FROM
    if is_bomb and entry.file_size > MAX_RATIO * max(entry.compress_size, 1):
        copied.leave_out(name, f"{entry.file_size / 1e6:.0f} MB out of almost nothing")
        return
    try:
        with archive.open(entry) as file:
            _write(iter(lambda: file.read(CHUNK), b""), to, name, copied)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError, ValueError) as error:
        if isinstance(error, RefusedError):
            raise
        with contextlib.suppress(OSError):
            (to / name).unlink()
        copied.leave_out(name, f"cannot be unpacked ({printable(str(error), 80)})")
    except Exception as error:  # Decompressors raise errors of their own, such as zlib.error.
        with contextlib.suppress(OSError):
            (to / name).unlink()
        copied.leave_out(name, f"cannot be unpacked ({type(error).__name__})")


def _name_in_zip(entry: zipfile.ZipInfo) -> str | None:
    """Return an entry's name as it was written; None if it is no text."""
    written = entry.orig_filename
    if entry.flag_bits & 0x800 or written.isascii():
        return written
    try:
        return written.encode("cp437").decode("utf-8")
    except UnicodeError:
        return None


# --- both ---


class _Names:
    """Knows the names so far and refuses those that could do harm."""

    def __init__(self, copied: Copied) -> None:
        self.copied = copied
        self.taken: dict[str, str] = {}

    def accepts(self, name: str) -> bool:
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
        if not name.isprintable():
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


def _write(chunks: Iterator[bytes], to: Path, name: str, copied: Copied) -> None:
    """Write one file of the copy; leave out one that is too large.

    Raises:
        RefusedError: All files together are too many or too large.
    """
    if copied.num_files >= MAX_FILES:
        raise RefusedError(f"more than {MAX_FILES} files")
    path = to / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        copied.leave_out(name, f"cannot be copied ({error.strerror})")
        return
    written = 0
    with os.fdopen(handle, "wb") as file:
        for chunk in chunks:
            written += len(chunk)
            if written > MAX_FILE_BYTES:
                break
            if copied.num_bytes + written > MAX_BYTES:
                raise RefusedError(f"more than {MAX_BYTES // 2**20} MB of files")
            file.write(chunk)
    if written > MAX_FILE_BYTES:
        path.unlink()
        copied.leave_out(name, f"larger than {MAX_FILE_BYTES // 2**20} MB")
        return
    copied.num_files += 1
    copied.num_bytes += written


def _lift_top_folder(folder: Path) -> None:
    """Take the content out of a single folder that holds everything, as often as there is one."""
    for _ in range(MAX_DEPTH):
        inside = list(folder.iterdir())
        if (folder / ADAPTERS).exists() or len(inside) != 1 or not inside[0].is_dir():
            break
        if inside[0].name in ("tests", "src"):
            break
        aside = folder.with_name(f"{folder.name}.top")
        inside[0].rename(aside)
        folder.rmdir()
        aside.rename(folder)
    _lift_the_one_with_adapters(folder)


def _lift_the_one_with_adapters(folder: Path) -> None:
    """Where the root has no adapters but one folder beside other files has, go on with that."""
    if (folder / ADAPTERS).exists():
        return
    rooms = [path for path in folder.iterdir() if (path / ADAPTERS).is_file()]
    if len(rooms) == 1:
        aside = folder.with_name(f"{folder.name}.top")
        rooms[0].rename(aside)
        shutil.rmtree(folder)
        aside.rename(folder)


def _source_of(path: Path) -> str:
    try:
        with tokenize.open(path) as file:
            return file.read()
    except (SyntaxError, UnicodeError, ValueError):
        return path.read_text(encoding="utf-8", errors="replace")
