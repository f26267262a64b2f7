"""What was handed in, a folder (or git checkout) or a zip, becomes a clean copy.

Only regular files with harmless names are copied, by their content. No link is followed. A zip may
be damaged, enormous, or made to do harm.
"""

import codecs
import contextlib
import errno
import functools
import hashlib
import os
import shutil
import stat
import tokenize
import zipfile
from collections.abc import Callable, Generator, Iterator
from io import BufferedReader
from pathlib import Path, PurePosixPath

from cs_grader.plain_text import plain
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

# A text compresses to a tenth, source to a fifth; what shrinks more than this is a bomb.
MAX_RATIO, RATIO_COUNTS_FROM = 200, 2**20
# An object is made of each entry of a zip's directory before any can be looked at.
MAX_DIRECTORY_BYTES = 200 * MAX_ENTRIES

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
        _fill(copy, _of_folder(source, copy.copied))
    elif source.suffix.lower() == ".zip" or zipfile.is_zipfile(source):
        _fill(copy, _of_zip(source))
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


# --- what there is to copy ---

Part = tuple[str, str, Callable[[], Iterator[bytes]]]
"""The name of a file, why it is left out ("" if it is not), and its content."""


class UnreadableError(Exception):
    """The content cannot be had; the message says why."""


def _fill(copy: CleanCopy, parts: Iterator[Part]) -> None:
    for name, reason, chunks in parts:
        if reason:
            copy.copied.leave_out(name, reason)
        elif copy.accepts(name):
            try:
                copy.write(name, chunks())
            except UnreadableError as error:
                copy.remove(name)
                copy.copied.leave_out(name, str(error))


def _of_folder(source: Path, copied: Copied) -> Iterator[Part]:
    for relative, about in walk(source, copied.leave_out, MAX_ENTRIES, MAX_DEPTH):
        mode = about.st_mode
        reason = "a link" if stat.S_ISLNK(mode) else "" if stat.S_ISREG(mode) else "not a file"
        yield normal(str(relative)), reason, functools.partial(_of_file, source / relative)


def _of_file(path: Path) -> Iterator[bytes]:
    try:
        file = open_regular(path)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        raise UnreadableError(f"cannot be read ({error.strerror})") from None
    with file:
        while chunk := file.read(CHUNK):
            yield chunk


def open_regular(path: Path) -> BufferedReader:
    """Open a file to read. Since it was looked at, it could have become a link or a pipe."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")


def walk(
    source: Path, leave_out: Callable[[str, str], None], max_entries: int, max_depth: int
) -> Iterator[tuple[PurePosixPath, os.stat_result]]:
    """Walk through a folder in order, without what is junk.

    Args:
        source: The folder.
        leave_out: Told the name and the reason of a folder that is not entered.
        max_entries: How many files and folders there may be.
        max_depth: How deep they may lie.

    Yields:
        The path in the folder of what is not a folder itself, and what is known of it.

    Raises:
        RefusedError: There is too much.
    """
    seen = 0
    stack = [PurePosixPath()]
    while stack:
        folder = stack.pop()
        try:
            entries = sorted(os.scandir(source / folder), key=lambda entry: entry.name)
        except OSError as error:
            leave_out(str(folder), f"cannot be read ({error.strerror})")
            continue
        for entry in entries:
            seen += 1
            if seen > max_entries:
                raise RefusedError(f"more than {max_entries} files and folders")
            if is_junk(entry.name):
                continue
            if not entry.is_dir(follow_symlinks=False):
                yield folder / entry.name, entry.stat(follow_symlinks=False)
            elif len(folder.parts) >= max_depth:
                leave_out(str(folder / entry.name), "too deep")
            else:
                stack.append(folder / entry.name)


def _of_zip(source: Path) -> Iterator[Part]:
    try:
        if directory_bytes(source) > MAX_DIRECTORY_BYTES:
            raise RefusedError(f"more than {MAX_ENTRIES} entries in the zip")
        with _reading():
            archive = zipfile.ZipFile(source)
    except UnreadableError as error:
        raise RefusedError(f"this archive is damaged: {error}") from None
    with archive:
        if len(archive.infolist()) > MAX_ENTRIES:
            raise RefusedError(f"more than {MAX_ENTRIES} entries in the zip")
        for entry in archive.infolist():
            name = _name_of(entry)
            if not (name.endswith("/") or any(map(is_junk, name.split("/")))):
                yield name, _reason_against(entry), functools.partial(_unpacked, archive, entry)


def directory_bytes(source: Path) -> int:
    """Return the length of the directory at the end of a zip, as the end itself gives it."""
    with _reading(), source.open("rb") as file:
        end = zipfile._EndRecData(file)  # pyright: ignore[reportAttributeAccessIssue]
        return end[zipfile._ECD_SIZE] if end else 0  # pyright: ignore[reportAttributeAccessIssue]


@contextlib.contextmanager
def _reading() -> Generator[None]:
    """Turn every exception into UnreadableError: a damaged zip can raise nearly anything."""
    try:
        yield
    except Exception as error:
        words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise UnreadableError(plain(words, 100)) from error


def _reason_against(entry: zipfile.ZipInfo) -> str:
    if entry.flag_bits & 0x1:
        return "encrypted"
    if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
        return "a link or a device"
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # Of other methods, Python unpacks a whole chunk at once: 1 MB can become 20 GB.
        return "packed by another method than deflate"
    is_large = entry.file_size > RATIO_COUNTS_FROM
    if is_large and entry.file_size > MAX_RATIO * max(entry.compress_size, 1):
        return f"{entry.file_size / 1e6:.0f} MB out of almost nothing"
    return ""


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    # Only reading is guarded: what goes wrong with writing is not the zip's fault.
    try:
        with _reading(), archive.open(entry) as file:
            while chunk := file.read(CHUNK):
                yield chunk
    except UnreadableError as error:
        raise UnreadableError(f"cannot be unpacked ({error})") from None


def _name_of(entry: zipfile.ZipInfo) -> str:
    """Return an entry's name with "/" between folders.

    Some programs for Windows write backslashes. What they separate is checked as any other name.
    Those that neither say that a name is UTF-8 nor write UTF-8 use the code page of their
    language, which the zip does not name: accents may come out as other letters.
    """
    written = entry.orig_filename
    if not entry.flag_bits & 0x800 and not written.isascii():
        with contextlib.suppress(UnicodeError):
            written = written.encode("cp437").decode("utf-8")
    return normal(written.replace("\\", "/"))


# --- the folder that counts ---


def _lift_top_folder(folder: Path) -> None:
    """Lift the content out of a single folder that holds everything, as often as there is one."""
    for _ in range(MAX_DEPTH):
        inside = list(folder.iterdir())
        if (folder / ADAPTERS).exists() or len(inside) != 1 or not inside[0].is_dir():
            break
        if inside[0].name in ("tests", "src"):
            break
        _replace(folder, inside[0])
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
        _replace(folder, rooms[0])


def _replace(folder: Path, inner: Path) -> None:
    """Put one of its own folders in the place of a folder."""
    aside = folder.with_name(f"{folder.name}.top")
    inner.rename(aside)
    shutil.rmtree(folder)
    aside.rename(folder)
