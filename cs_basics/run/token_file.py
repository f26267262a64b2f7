"""Token files: an encoded text on disk.

A token file is a header of fixed length followed by the ids as raw little-endian integers. It is
memory-mapped, so that a model can be trained on a file larger than memory.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cs_basics.tokenizer import Tokenizer

MAGIC = b"cs_basics tokens\n"
VERSION = 1
HEADER_BYTES = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenHeader:
    """Header of a token file."""

    version: int
    """Version of the format."""
    dtype: str
    """Type of an id: uint16, or uint32 for larger vocabularies."""
    vocab_size: int
    """Exclusive upper bound of the ids."""
    tokenizer_checksum: str
    """Checksum of the tokenizer that made the ids."""
    num_tokens: int
    """Number of ids in the file."""
    num_bytes: int
    """Bytes of the text that was encoded."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TokenFile(TokenHeader):
    """An open token file."""

    path: Path
    """Path of the file."""
    tokens: np.memmap[Any, np.dtype[Any]]
    """All ids, (num_tokens,), memory-mapped and read-only."""


def tokenizer_checksum(tokenizer: Tokenizer) -> str:
    """Return a hex digest of vocabulary, merges and special tokens."""
    content = (
        [(i, token.hex()) for i, token in sorted(tokenizer.vocab.items())],
        [(left.hex(), right.hex()) for left, right in tokenizer.merges],
        sorted(tokenizer.special_tokens),
    )
    return hashlib.sha256(json.dumps(content).encode("ascii")).hexdigest()


def token_dtype(vocab_size: int) -> str:
    """Return the smallest id type of a token file that holds the ids of a vocabulary.

    Raises:
        ValueError: The vocabulary is too large for every type.
    """
    if vocab_size > 1 << 32:
        raise ValueError(f"the token id {vocab_size - 1} is more than a token file holds")
    return "uint16" if vocab_size <= 1 << 16 else "uint32"


def packed_ids(
    ids: Sequence[int] | npt.NDArray[np.integer[Any]], vocab_size: int
) -> npt.NDArray[np.integer[Any]]:
    """Convert ids to an array of the id type of a token file.

    Raises:
        ValueError: An id is negative or not below vocab_size.
    """
    ids = np.asarray(ids, dtype=None if len(ids) else np.int64)
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < vocab_size:
        raise ValueError(
            f"token ids from {ids.min()} to {ids.max()} do not fit vocab_size={vocab_size}"
        )
    return ids.astype(np.dtype(token_dtype(vocab_size)).newbyteorder("<"), copy=False)


def packed_header(header: TokenHeader) -> bytes:
    """Return a header as bytes, as written at the start of a token file."""
    return (MAGIC + json.dumps(asdict(header)).encode()).ljust(HEADER_BYTES)


def open_token_file(
    path: str | os.PathLike[str], tokenizer_checksum: str | None = None
) -> TokenFile:
    """Open a token file as a read-only memory map.

    Args:
        path: The file.
        tokenizer_checksum: Expected checksum of the tokenizer; None: any.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not a complete token file of this version, or made by another tokenizer.
    """
    path = Path(path)
    header = _read_header(path)
    expected = HEADER_BYTES + header.num_tokens * np.dtype(header.dtype).itemsize
    if (size := path.stat().st_size) != expected:
        raise ValueError(
            f"{path} has {size} bytes where {header.num_tokens} tokens need {expected}: "
            "it is damaged, encode the text again"
        )
    if tokenizer_checksum not in (None, header.tokenizer_checksum):
        raise ValueError(
            f"{path} was encoded by the tokenizer {header.tokenizer_checksum[:12]}..., "
            f"not by {tokenizer_checksum[:12]}...: use that tokenizer or encode the text again"
        )
    tokens = np.memmap(
        path,
        dtype=np.dtype(header.dtype).newbyteorder("<"),
        mode="r",
        offset=HEADER_BYTES,
        shape=(header.num_tokens,),
    )
    return TokenFile(**asdict(header), path=path, tokens=tokens)


def check_unchanged(file: TokenFile) -> None:
    """Check that an open token file has not changed its size.

    Reading a memory map beyond the end of its file would kill the process without a message.

    Raises:
        FileNotFoundError: The file was deleted.
        ValueError: The file has another size.
    """
    size = HEADER_BYTES + file.tokens.nbytes
    try:
        found = file.path.stat().st_size
    except FileNotFoundError:
        raise FileNotFoundError(f"{file.path} was deleted while it was in use") from None
    if found != size:
        raise ValueError(
            f"{file.path} had {size} bytes and now has {found}: it was changed while in use"
        )


def _read_header(path: Path) -> TokenHeader:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: name a token file")
    with path.open("rb") as file:
        raw = file.read(HEADER_BYTES)
    if not raw.startswith(MAGIC) or len(raw) < HEADER_BYTES:
        raise ValueError(f"{path} is not a token file: encode the text")
    try:
        fields = json.loads(raw.removeprefix(MAGIC))
        version = fields["version"]
        if version == VERSION:
            return _checked(TokenHeader(**fields))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError(f"{path} has a damaged header: encode the text again") from None
    raise ValueError(
        f"{path} has version {version!r} of the format, not {VERSION}: encode the text again"
    )


def _checked(header: TokenHeader) -> TokenHeader:
    numbers = (header.vocab_size, header.num_tokens, header.num_bytes)
    if (
        not all(type(number) is int and number >= 0 for number in numbers)
        or not isinstance(header.tokenizer_checksum, str)  # pyright: ignore[reportUnnecessaryIsInstance]
        or header.dtype != token_dtype(header.vocab_size)
    ):
        raise ValueError(f"impossible header: {header}")
    return header


def entropies(tokens: npt.NDArray[Any]) -> tuple[float, float]:
    """Return the entropy of single tokens, and of a token after the one before, in nats."""
    ids = np.asarray(tokens[:1_000_000]).astype(np.int64)
    found = list[float]()
    for kinds in (ids, ids[:-1] << 32 | ids[1:]):
        shares = np.unique(kinds, return_counts=True)[1] / kinds.size
        found.append(-(shares @ np.log(shares)).item())
    return found[0], found[1] - found[0]
