"""Blocks: parts of a text file that processes can work on independently of each other.

An ordinary file is mapped into memory and cut at boundaries (boundaries.py). A process is told
only where its block is, and reads the text from the file when it needs it, a chunk at a time. A
pipe cannot be mapped: its text is read in order and sent to the processes.
"""

import codecs
import contextlib
import mmap
import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cs_basics.fast.text.boundaries import Bytes, Span, spans
from cs_basics.pretokenize import text_to_bytes
from cs_basics.tokenizer import independent_chunks

CHUNK_BYTES = 1 << 17
"""Bytes of text handled at once: so few that its words stay in the processor's cache."""
FIRST_CHUNK_BYTES = 1 << 13
"""Bytes of the first chunk; sizes then double. It is short, since no segment is known in it yet."""
PIPE_BYTES = 1 << 19
"""Bytes read at once from a source that cannot be mapped into memory, such as a pipe."""


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a text that by itself has the same tokens as within the whole text."""

    source: Path | bytes
    """File that holds the part, or the part itself."""
    span: Span
    """Where the part is in the file; from 0 to its size if `source` is the part itself."""

    @property
    def num_bytes(self) -> int:
        """Size in bytes."""
        return self.span.end - self.span.start

    def chunks(self, special_tokens: Sequence[str]) -> Iterator[bytes]:
        """Yield the text as bytes, chunk by chunk in order, again cut at boundaries.

        Raises:
            OSError: The file cannot be read.
        """
        if isinstance(self.source, bytes):
            yield from byte_chunks(self.source, special_tokens)
        else:
            with _mapped(self.source) as data:
                yield from _chunks(data, self.span, special_tokens)


def byte_chunks(data: bytes, special_tokens: Sequence[str]) -> Iterator[bytes]:
    """Cut a text into chunks at boundaries."""
    if len(data) <= FIRST_CHUNK_BYTES:
        yield data
        return
    yield from _chunks(data, Span(0, len(data)), special_tokens)


def _chunks(data: Bytes, span: Span, special_tokens: Sequence[str]) -> Iterator[bytes]:
    for start, end in spans(
        data, span, CHUNK_BYTES, _encoded(special_tokens), first_bytes=FIRST_CHUNK_BYTES
    ):
        yield data[start:end]


def file_size(path: str | os.PathLike[str]) -> int:
    """Return the size of a text file in bytes; 0 means unknown, as for a pipe.

    Raises:
        OSError: There is no such file, or it is a folder.
        ValueError: It is an ordinary file and empty.
    """
    if not Path(path).exists():
        raise FileNotFoundError(f"{path} does not exist: name a text file")
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a text file")
    size = Path(path).stat().st_size
    if size == 0 and Path(path).is_file():
        raise ValueError(f"{path} is empty: there is no text to work on")
    return size


def file_blocks(
    path: str | os.PathLike[str], special_tokens: Sequence[str], block_bytes: int
) -> Iterator[Block]:
    """Cut a file into blocks without reading it.

    Args:
        path: Text file, any bytes; or a pipe.
        special_tokens: Strings that no block may split.
        block_bytes: About the size of a block.

    Raises:
        OSError: The file cannot be read.
    """
    if not Path(path).is_file():
        for text in independent_chunks(_read_text(path), special_tokens):
            data = text_to_bytes(text)
            yield Block(data, Span(0, len(data)))
        return
    with _mapped(path) as data:
        for part in spans(data, Span(0, len(data)), block_bytes, _encoded(special_tokens)):
            yield Block(Path(path), part)


def _read_text(path: str | os.PathLike[str]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    with Path(path).open("rb") as file:
        while data := file.read(PIPE_BYTES):
            yield decoder.decode(data)
        yield decoder.decode(b"", final=True)


def _encoded(special_tokens: Sequence[str]) -> list[bytes]:
    return [token.encode("utf-8") for token in special_tokens]


@contextlib.contextmanager
def _mapped(path: str | os.PathLike[str]) -> Generator[mmap.mmap]:
    with (
        Path(path).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        yield data
