"""Encode texts of any size to token files, with several processes, resumable.

A FastTokenizer encodes with several processes. Any other tokenizer needs only `encode_iterable`; it
encodes in one process and cannot resume.

The unfinished file has the suffix ".part" and a header that records the progress every few seconds.
After a kill, of this process or of a worker, the same call resumes from there. An ordinary error
deletes the unfinished file.
"""

import codecs
import contextlib
import json
import os
import time
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from cs_basics.run.atomic import lock
from cs_basics.run.look import check_is_text
from cs_basics.run.progress import OnProgress
from cs_basics.run.token_file import (
    HEADER_BYTES,
    VERSION,
    TokenFile,
    TokenHeader,
    open_token_file,
    packed_header,
    packed_ids,
    token_dtype,
    tokenizer_checksum,
)
from cs_basics.tokenizer import Tokenizer

READ_BYTES = 1 << 19
"""Bytes of text passed at once to a tokenizer without `encode_blocks`."""
IDS_AT_ONCE = 1 << 16
"""Ids taken at once from a tokenizer without `encode_blocks`."""

SAVE_INTERVAL_S = 5.0
"""Seconds between two records of the progress: the most work that a kill can cost."""

_Encoded = tuple[int, npt.NDArray[np.integer[Any]] | list[int]]
"""Size in bytes of a chunk of the text, and its ids."""

_PART_MAGIC = b"cs_basics unfinished tokens\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """Header of an unfinished token file: its source and its progress."""

    text_bytes: int
    """Size of the text."""
    text_changed_ns: int
    """Modification time of the text."""
    tokenizer_checksum: str
    """Checksum of the tokenizer."""
    bytes_done: int = 0
    """Bytes of the text encoded so far."""
    tokens_done: int = 0
    """Ids written so far, which follow the header."""


def encode_file(
    tokenizer: Tokenizer,
    text_path: str | os.PathLike[str],
    out_path: str | os.PathLike[str],
    num_workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> TokenFile:
    """Encode a text file of any size to a token file.

    The encoding is lossless: decoding the ids gives back every byte of the text. After a kill or an
    interrupt, the same call resumes if text and tokenizer are unchanged.

    Args:
        tokenizer: The tokenizer; its special tokens are recognised in the text.
        text_path: Text file, any bytes.
        out_path: Token file to write; an existing one is replaced once the new one is complete.
        num_workers: Number of processes, which does not change the result; None: by file size.
        on_progress: Called with the progress now and then.

    Returns:
        The finished token file, opened.

    Raises:
        OSError: The text cannot be read, the token file cannot be written, or a worker was killed.
        ValueError: The text is empty, has a byte for which the tokenizer has no token, or is being
            encoded to this file by another process.
    """
    text_path, out_path = Path(text_path), Path(out_path)
    encode_blocks = getattr(tokenizer, "encode_blocks", None)
    can_seek = encode_blocks is not None and text_path.is_file()
    _check_paths(text_path, out_path)
    if num_workers is not None and num_workers < 1:
        raise ValueError(f"num_workers={num_workers} must be at least 1")
    fresh = Attempt(
        text_bytes=text_path.stat().st_size,
        text_changed_ns=text_path.stat().st_mtime_ns,
        tokenizer_checksum=tokenizer_checksum(tokenizer),
    )
    out_path.parent.mkdir(parents=True, exist_ok=True)
    part_path = out_path.with_name(out_path.name + ".part")
    with _unfinished(part_path) as file:
        id_bytes = np.dtype(token_dtype(tokenizer.vocab_size)).itemsize
        attempt = _resumed(file, fresh, id_bytes, can_seek)
        if encode_blocks is None:
            encoded = _encode_from_start(tokenizer, text_path, on_progress)
        else:
            encoded = encode_blocks(text_path, num_workers, on_progress, start=attempt.bytes_done)
        attempt = _append(file, encoded, attempt, tokenizer.vocab_size)
        _finish(file, attempt, tokenizer.vocab_size)
        part_path.replace(out_path)
    return open_token_file(out_path)


def _check_paths(text_path: Path, out_path: Path) -> None:
    check_is_text(text_path)
    if out_path.exists() and out_path.samefile(text_path):
        raise ValueError(f"out_path={out_path} is the text itself: choose another name")
    if out_path.exists() and not out_path.is_file():
        raise ValueError(f"{out_path} is not an ordinary file and will not be replaced")


def _encode_from_start(
    tokenizer: Tokenizer, path: Path, on_progress: OnProgress | None
) -> Iterator[_Encoded]:
    """Encode a text with `encode_iterable` alone, and report the progress."""
    total, num_read, num_done = path.stat().st_size, 0, 0
    if on_progress:
        on_progress("encoding", "bytes", 0, total)

    def text() -> Iterator[str]:
        nonlocal num_read
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        with path.open("rb") as file:
            while data := file.read(READ_BYTES):
                num_read += len(data)
                yield decoder.decode(data)
        yield decoder.decode(b"", final=True)

    ids = iter(tokenizer.encode_iterable(text()))
    while batch := list(islice(ids, IDS_AT_ONCE)):
        yield num_read - num_done, batch
        num_done = num_read
        if on_progress:
            on_progress("encoding", "bytes", num_done, total)


def _append(
    file: IO[bytes], encoded: Iterator[_Encoded], attempt: Attempt, vocab_size: int
) -> Attempt:
    """Append blocks of ids, recording the progress now and then; return the final state."""
    saved = time.monotonic()
    try:
        for num_bytes, ids in encoded:
            file.write(packed_ids(ids, vocab_size).data)
            attempt = replace(
                attempt,
                bytes_done=attempt.bytes_done + num_bytes,
                tokens_done=attempt.tokens_done + len(ids),
            )
            if time.monotonic() - saved > SAVE_INTERVAL_S:
                _save(file, attempt)
                saved = time.monotonic()
    except (KeyboardInterrupt, ChildProcessError):
        _save(file, attempt)
        raise
    return attempt


def _finish(file: IO[bytes], attempt: Attempt, vocab_size: int) -> None:
    """Replace the record of the progress by the header of a finished token file."""
    header = TokenHeader(
        version=VERSION,
        dtype=token_dtype(vocab_size),
        vocab_size=vocab_size,
        tokenizer_checksum=attempt.tokenizer_checksum,
        num_tokens=attempt.tokens_done,
        num_bytes=attempt.bytes_done,
    )
    file.seek(0)
    file.write(packed_header(header))
    file.flush()
    os.fsync(file.fileno())


def _create(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_CREAT, 0o666)


@contextlib.contextmanager
def _unfinished(path: Path) -> Generator[IO[bytes]]:
    """Open and lock an unfinished file; any error but a killed worker deletes it.

    Raises:
        ValueError: Another process has it open.
    """
    # Not "w+b", which would empty the file that another process is writing.
    with open(path, "r+b", opener=_create) as file:
        lock(file)
        try:
            yield file
        except ChildProcessError:
            raise
        except Exception:
            path.unlink(missing_ok=True)
            raise


def _resumed(file: IO[bytes], fresh: Attempt, id_bytes: int, can_resume: bool) -> Attempt:
    """Return the progress of an earlier attempt at the same work; seek to the end of its ids."""
    attempt = fresh
    head = file.read(HEADER_BYTES)
    if head.startswith(_PART_MAGIC) and can_resume:
        with contextlib.suppress(ValueError, TypeError):
            found = Attempt(**json.loads(head.removeprefix(_PART_MAGIC)))
            is_same = replace(found, bytes_done=0, tokens_done=0) == fresh
            end = HEADER_BYTES + found.tokens_done * id_bytes
            if is_same and os.fstat(file.fileno()).st_size >= end:
                attempt = found
    file.truncate(HEADER_BYTES + attempt.tokens_done * id_bytes)
    _save(file, attempt)
    return attempt


def _save(file: IO[bytes], attempt: Attempt) -> None:
    """Record the progress, after the ids are synced to the disk, and seek to the end."""
    file.flush()
    if attempt.bytes_done:
        os.fsync(file.fileno())
    file.seek(0)
    file.write((_PART_MAGIC + json.dumps(asdict(attempt)).encode()).ljust(HEADER_BYTES))
    file.seek(0, os.SEEK_END)
