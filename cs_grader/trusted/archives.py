"""Copies what is in a zip, which may be damaged, enormous, or made to do harm."""

import contextlib
import stat
import zipfile
from collections.abc import Generator, Iterator
from pathlib import Path

from cs_grader.plain_text import plain
from cs_grader.trusted.clean_copy import (
    CHUNK,
    MAX_ENTRIES,
    CleanCopy,
    RefusedError,
    is_junk,
    normal,
)

# A text compresses to a tenth, source to a fifth; what shrinks more than this is a bomb.
MAX_RATIO, RATIO_COUNTS_FROM = 200, 2**20
# An object is made of each entry of a zip's directory before any can be looked at.
MAX_DIRECTORY_BYTES = 200 * MAX_ENTRIES


class DamagedError(Exception):
    """The zip's own bytes are at fault, whatever exception the reader of zips raised."""


def extract(source: Path, copy: CleanCopy) -> None:
    """Copy the files of a zip.

    Raises:
        RefusedError: The zip is damaged, or holds too much.
        OSError: The copy cannot be written.
    """
    try:
        if directory_bytes(source) > MAX_DIRECTORY_BYTES:
            raise RefusedError(f"more than {MAX_ENTRIES} entries in the zip")
        with reading():
            archive = zipfile.ZipFile(source)
    except DamagedError as error:
        raise RefusedError(f"this archive is damaged: {error}") from None
    with archive:
        if len(archive.infolist()) > MAX_ENTRIES:
            raise RefusedError(f"more than {MAX_ENTRIES} entries in the zip")
        for entry in archive.infolist():
            _extract_one(archive, entry, copy)


def directory_bytes(source: Path) -> int:
    """Return the length of the directory at the end of a zip, as the end itself gives it."""
    with reading(), source.open("rb") as file:
        end = zipfile._EndRecData(file)  # pyright: ignore[reportAttributeAccessIssue]
        return end[zipfile._ECD_SIZE] if end else 0  # pyright: ignore[reportAttributeAccessIssue]


@contextlib.contextmanager
def reading() -> Generator[None]:
    """Turn every exception into DamagedError: a damaged zip can raise nearly anything."""
    try:
        yield
    except Exception as error:
        words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise DamagedError(plain(words, 100)) from error


def _extract_one(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, copy: CleanCopy) -> None:
    name = _name_of(entry)
    if name.endswith("/") or any(map(is_junk, name.split("/"))):
        pass
    elif entry.flag_bits & 0x1:
        copy.copied.leave_out(name, "encrypted")
    elif stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
        copy.copied.leave_out(name, "a link or a device")
    elif entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # Of other methods, Python unpacks a whole chunk at once: 1 MB can become 20 GB.
        copy.copied.leave_out(name, "packed by another method than deflate")
    elif _is_bomb(entry):
        copy.copied.leave_out(name, f"{entry.file_size / 1e6:.0f} MB out of almost nothing")
    elif copy.accepts(name):
        try:
            copy.write(name, _chunks(archive, entry))
        except DamagedError as error:
            copy.remove(name)
            copy.copied.leave_out(name, f"cannot be unpacked ({error})")


def _chunks(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    # Only reading is guarded: what goes wrong with writing is not the zip's fault.
    with reading(), archive.open(entry) as file:
        while chunk := file.read(CHUNK):
            yield chunk


def _is_bomb(entry: zipfile.ZipInfo) -> bool:
    is_large = entry.file_size > RATIO_COUNTS_FROM
    return is_large and entry.file_size > MAX_RATIO * max(entry.compress_size, 1)


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
