"""Encode texts of any size to token files, with several processes.

A FastTokenizer encodes with several processes. Any other tokenizer needs only `encode_iterable`,
and encodes in one.
"""

import codecs
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cs_basics.run.atomic import atomic_writer
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

_Encoded = tuple[int, npt.NDArray[np.integer[Any]] | list[int]]
"""Size in bytes of a chunk of the text, and its ids."""


def encode_file(
    tokenizer: Tokenizer,
    text_path: str | os.PathLike[str],
    out_path: str | os.PathLike[str],
    num_workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> TokenFile:
    """Encode a text file of any size to a token file.

    The encoding is lossless: decoding the ids gives back every byte of the text.

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
        ValueError: The text is empty, or has a byte for which the tokenizer has no token.
    """
    text_path, out_path = Path(text_path), Path(out_path)
    check_is_text(text_path)
    if out_path.exists() and out_path.samefile(text_path):
        raise ValueError(f"out_path={out_path} is the text itself: choose another name")
    if num_workers is not None and num_workers < 1:
        raise ValueError(f"num_workers={num_workers} must be at least 1")
    if encode_blocks := getattr(tokenizer, "encode_blocks", None):
        encoded = encode_blocks(text_path, num_workers, on_progress)
    else:
        encoded = _encode_by_chunks(tokenizer, text_path, on_progress)
    vocab_size, num_bytes, num_tokens = tokenizer.vocab_size, 0, 0
    with atomic_writer(out_path) as file:
        file.write(bytes(HEADER_BYTES))  # It says how much follows, which is known at the end.
        for size, ids in encoded:
            file.write(packed_ids(ids, vocab_size).data)
            num_bytes, num_tokens = num_bytes + size, num_tokens + len(ids)
        header = TokenHeader(
            version=VERSION,
            dtype=token_dtype(vocab_size),
            vocab_size=vocab_size,
            tokenizer_checksum=tokenizer_checksum(tokenizer),
            num_tokens=num_tokens,
            num_bytes=num_bytes,
        )
        file.seek(0)
        file.write(packed_header(header))
    return open_token_file(out_path)


def _encode_by_chunks(
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
