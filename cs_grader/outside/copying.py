"""What was handed in, a folder (or git checkout) or a zip, becomes a clean copy.

Only regular files with harmless names are copied, by their content. No link is followed.
"""

import hashlib
import os
import shutil
import stat
import tokenize
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from cs_grader.outside.archives import extract
from cs_grader.outside.clean_copy import (
    CHUNK,
    MAX_DEPTH,
    MAX_ENTRIES,
    CleanCopy,
    Copied,
    RefusedError,
    is_junk,
    normal,
)

ADAPTERS = PurePosixPath("tests/adapters.py")


def copy_submission(source: Path, to: Path) -> Copied:
    """Make a clean copy of a submission, without the top folder that zips often have.

    Args:
        source: A folder or a zip; not changed.
        to: A folder that does not exist.

    Raises:
        RefusedError: It is a damaged zip, or too large to be a solution.
        OSError: It cannot be read or written at all.
    """
    copy = CleanCopy(to)
    if source.is_dir():
        _copy_folder(source, copy)
    else:
        extract(source, copy)
    _lift_top_folder(to)
    copy.copied.key = key_of(to)
    return copy.copied


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


def _source_of(path: Path) -> str:
    try:
        with tokenize.open(path) as file:
            return file.read()
    except (SyntaxError, UnicodeError, ValueError):
        return path.read_text(encoding="utf-8", errors="replace")


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


def _copy_folder(source: Path, copy: CleanCopy) -> None:
    for relative, entry in _entries(source, copy.copied):
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            copy.copied.leave_out(str(relative), "a link")
        elif not stat.S_ISREG(mode):
            copy.copied.leave_out(str(relative), "not a file")
        elif copy.accepts(normal(str(relative))):
            try:
                # Since it was looked at, it could have become a link.
                handle = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError as error:
                copy.copied.leave_out(str(relative), f"cannot be read ({error.strerror})")
                continue
            with os.fdopen(handle, "rb") as file:
                copy.write(normal(str(relative)), iter(lambda file=file: file.read(CHUNK), b""))


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


def _lift_top_folder(folder: Path) -> None:
    """Lift the content out of a single folder that holds everything, as often as there is one."""
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
    """If the root has no adapters but exactly one of its folders has, keep only that folder."""
    if (folder / ADAPTERS).exists():
        return
    rooms = [path for path in folder.iterdir() if (path / ADAPTERS).is_file()]
    if len(rooms) == 1:
        aside = folder.with_name(f"{folder.name}.top")
        rooms[0].rename(aside)
        shutil.rmtree(folder)
        aside.rename(folder)
