"""A zip archive that ends with its own checksum, as the comment that the format provides for.

One file with one name: it cannot come without its checksum, or with that of another. Whoever reads
zip archives, torch.load too, reads it as before; `unzip -z FILE` shows the checksum.

Tested by `make test ARGS=tests/project/test_checkpoint_files.py`.
"""

import hashlib
import io
import struct
from typing import IO

BinaryFile = IO[bytes] | io.BytesIO
"""The second is one of the first only to those who do not check types as a program runs."""

_PREFIX = b"sha256:"
_SEAL_BYTES = len(_PREFIX) + hashlib.sha256().digest_size * 2
# An archive ends with the length of its comment and the comment (APPNOTE.TXT, sec. 4.3.16).
_LENGTH = struct.Struct("<H")
_CHUNK_BYTES = 1 << 20


class SealingWriter:
    """A binary file for writing a zip archive without a comment; adds the checksum in the end.

    Args:
        file: Where the archive goes.
    """

    def __init__(self, file: BinaryFile) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self._held_back = b""
        self.error: OSError | None = None
        """Why the file could not be written; torch.save does not say."""

    def write(self, data: bytes | memoryview) -> int:
        """Write all but the last bytes, which may be the length of the comment."""
        end = self._held_back + data[-_LENGTH.size :]
        # In two parts: together they would be a copy, and weights may be large.
        self._put(end[: -_LENGTH.size])
        self._put(memoryview(data)[: -_LENGTH.size])
        self._held_back = end[-_LENGTH.size :]
        return len(data)

    def flush(self) -> None:
        """Do what a file does."""
        self._file.flush()

    def seal(self) -> None:
        """Write the checksum of all that came before.

        Raises:
            ValueError: What was written does not end like a zip archive without a comment.
        """
        if self._held_back != _LENGTH.pack(0):
            raise ValueError(f"a zip archive cannot end with {self._held_back!r}")
        seal = _PREFIX + self._sha256.hexdigest().encode()
        self._file.write(_LENGTH.pack(len(seal)) + seal)

    def _put(self, data: bytes | memoryview) -> None:
        self._sha256.update(data)
        try:
            self._file.write(data)
        except OSError as error:
            self.error = error
            raise


def is_intact(file: BinaryFile) -> bool:
    """Whether a file, from where it stands to its end, is as it was sealed. It stands there again.

    Args:
        file: Open for reading, and seekable.
    """
    start = file.tell()
    size = file.seek(0, io.SEEK_END) - start
    # The end first: what is not sealed at all may be of any length.
    file.seek(max(start, start + size - _SEAL_BYTES))
    if not file.read().startswith(_PREFIX):
        file.seek(start)
        return False
    file.seek(start)
    left = size - _SEAL_BYTES - _LENGTH.size
    sha256 = hashlib.sha256()
    while left > 0 and (chunk := file.read(min(left, _CHUNK_BYTES))):
        sha256.update(chunk)
        left -= len(chunk)
    end = file.read()
    file.seek(start)
    return end == _LENGTH.pack(_SEAL_BYTES) + _PREFIX + sha256.hexdigest().encode()
