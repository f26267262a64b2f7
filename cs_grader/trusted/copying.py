"""What was handed in, a folder (or git checkout) or a zip, becomes a clean copy.

Only regular files with harmless names are copied, by their content. No link is followed.
"""

import codecs
import contextlib
import errno
import hashlib
import os
import shutil
import stat
import tokenize
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from cs_grader.trusted.archives import extract
from cs_grader.trusted.clean_copy import (
    ADAPTERS,
    CHUNK,
    MAX_DEPTH,
    MAX_ENTRIES,
    CleanCopy,
    Copied,
    RefusedError,
    is_junk,
    normal,
)

ENCODINGS = frozenset(
    {
        *("utf-8", "utf-8-sig", "ascii", "iso8859-1", "iso8859-15", "cp1251", "cp1252", "koi8-r"),
        *("gb2312", "gbk", "gb18030", "big5", "shift_jis", "cp932", "euc_jp", "euc_kr", "cp949"),
    }
)
"""What source may be written in. Others are no encodings of a text (rot13), take quadratic time
(punycode), or hide what is executed (utf-7)."""


def copy_submission(source: Path, to: Path) -> Copied:
    """Make a clean copy of a submission, without the top folder that zips often have.

    Args:
        source: A folder or a zip; not changed.
        to: A folder that does not exist.

    Raises:
        RefusedError: It is a damaged zip, or too large to be a solution.
        OSError: It cannot be read or written at all.
    """
    # A link may lead to what another has handed in, or to any file of whoever grades.
    if source.is_symlink() or not (source.is_dir() or source.is_file()):
        raise RefusedError("it is a link or a device: put the folder or the zip itself there")
    copy = CleanCopy(to)
    if source.is_dir():
        _copy_folder(source, copy)
    elif source.suffix.lower() == ".zip" or zipfile.is_zipfile(source):
        extract(source, copy)
    else:
        raise RefusedError(f"{source.suffix} cannot be read: hand in a zip or a folder")
    _lift_top_folder(to)
    _leave_out_unreadable(to, copy.copied)
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
        if path.is_file()
    }


def _source_of(path: Path) -> str:
    try:
        return path.read_text(encoding=_encoding_of(path))
    except (SyntaxError, UnicodeError):
        return path.read_text(encoding="utf-8", errors="replace")


def _encoding_of(path: Path) -> str:
    """Return the encoding that a Python file declares.

    Raises:
        SyntaxError: Python would refuse the file, too.
    """
    with path.open("rb") as file:
        return codecs.lookup(tokenize.detect_encoding(file.readline)[0]).name


def _leave_out_unreadable(folder: Path, copied: Copied) -> None:
    """Remove source in other encodings than ENCODINGS: nobody could say what it does."""
    for path in sorted(folder.rglob("*.py")):
        with contextlib.suppress(SyntaxError):
            if path.is_file() and (encoding := _encoding_of(path)) not in ENCODINGS:
                path.unlink()
                name = path.relative_to(folder).as_posix()
                copied.leave_out(name, f"written in {encoding}: use UTF-8")


def own_names(folder: Path) -> list[str]:
    """Return the modules and packages that an import finds in the submission itself.

    No more and no longer ones than an argument of a process has room for: they count only where
    they have the name of an installed package.
    """
    names = {
        path.stem if path.is_file() else path.name
        for root in (folder, folder / "src", folder / "tests")
        if root.is_dir()
        for path in root.iterdir()
        if path.is_dir() or path.suffix == ".py"
    }
    return sorted(name for name in names if name.isidentifier() and len(name) <= 40)[:500]


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
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    raise
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
    """If the root has no adapters, keep only the folder that has, if one is nearer than all others.

    Nearer: fewer folders down.
    """
    if (folder / ADAPTERS).exists():
        return
    rooms = [path.parents[1] for path in folder.rglob(str(ADAPTERS)) if path.is_file()]
    rooms.sort(key=lambda room: len(room.parts))
    if rooms and (len(rooms) == 1 or len(rooms[0].parts) < len(rooms[1].parts)):
        aside = folder.with_name(f"{folder.name}.top")
        rooms[0].rename(aside)
        shutil.rmtree(folder)
        aside.rename(folder)
