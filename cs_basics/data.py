"""Token files, which hold an encoded text on disk, and batches drawn from them.

A token file is a header of fixed length that says what the rest is, then the ids as raw
little-endian integers. It is opened as a memory map, so that a file larger than memory can be
trained on.

Test: pytest tests/project/test_data.py
"""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cs_basics.run.atomic import atomic_writer

if TYPE_CHECKING:
    import torch

MAGIC = b"cs_basics tokens\n"
VERSION = 1
HEADER_BYTES = 1024
MAX_UINT16_VOCAB_SIZE = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenHeader:
    """What a token file says about itself."""

    version: int
    """Version of the format."""
    dtype: str
    """Type of an id: uint16, or uint32 where the vocabulary is too large for it."""
    vocab_size: int
    """Every id is below this."""
    tokenizer_checksum: str
    """Checksum of the tokenizer that made the ids."""
    num_tokens: int
    """Ids in the file."""
    num_bytes: int
    """Bytes of the text that was encoded."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TokenFile(TokenHeader):
    """An open token file."""

    path: Path
    """Where it is."""
    tokens: np.memmap[Any, np.dtype[Any]]
    """All ids, (num_tokens,), memory-mapped and read-only."""


def token_dtype(vocab_size: int) -> str:
    """Smallest type of a token file that holds the ids of a vocabulary."""
    return "uint16" if vocab_size <= MAX_UINT16_VOCAB_SIZE else "uint32"


def write_token_file(
    path: str | os.PathLike[str],
    id_chunks: Iterable[tuple[int, Sequence[int] | npt.NDArray[np.integer[Any]]]],
    *,
    vocab_size: int,
    tokenizer_checksum: str,
) -> TokenFile:
    """Write token ids to a file, which appears under its name only when complete.

    Args:
        path: Where to write; its folder is made if missing, an existing file is replaced.
        id_chunks: The text in order, in pieces of any length: of each piece its size in bytes and
            its ids. Only one piece is held at a time.
        vocab_size: Bound of the ids.
        tokenizer_checksum: Checksum of the tokenizer that made the ids.

    Returns:
        The finished file, opened.

    Raises:
        OSError: The file cannot be written.
        ValueError: An id is negative or not below vocab_size.
    """
    dtype = token_dtype(vocab_size)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with atomic_writer(path) as file:
        file.write(bytes(HEADER_BYTES))
        num_tokens = num_bytes = 0
        for chunk_bytes, chunk in id_chunks:
            file.write(packed_ids(chunk, vocab_size).data)
            num_tokens += len(chunk)
            num_bytes += chunk_bytes
        header = TokenHeader(
            version=VERSION,
            dtype=dtype,
            vocab_size=vocab_size,
            tokenizer_checksum=tokenizer_checksum,
            num_tokens=num_tokens,
            num_bytes=num_bytes,
        )
        file.seek(0)
        file.write(packed_header(header))
    return open_token_file(path)


def packed_ids(
    ids: Sequence[int] | npt.NDArray[np.integer[Any]], vocab_size: int
) -> npt.NDArray[np.integer[Any]]:
    """Return ids as an array of the type that a token file holds.

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
    """Return a header as a token file begins with it."""
    return (MAGIC + json.dumps(asdict(header)).encode()).ljust(HEADER_BYTES)


def open_token_file(
    path: str | os.PathLike[str], tokenizer_checksum: str | None = None
) -> TokenFile:
    """Open a token file as a read-only memory map.

    Args:
        path: The file.
        tokenizer_checksum: If given, the tokenizer that the ids have to be of.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not a complete token file of this version, or of another tokenizer.
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
    """Look whether an open token file is still as long as it was.

    Reading a memory map beyond the end of its file ends the process, without a word.

    Raises:
        FileNotFoundError: It is gone.
        ValueError: It has another size.
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
    with path.open("rb") as file:
        raw = file.read(HEADER_BYTES)
    if not raw.startswith(MAGIC) or len(raw) < HEADER_BYTES:
        raise ValueError(f"{path} is not a token file: make one with scripts/encode.py")
    try:
        fields = json.loads(raw.removeprefix(MAGIC))
        version = fields["version"]
        if version == VERSION:
            return _checked(TokenHeader(**fields))
    except (ValueError, TypeError, KeyError):
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


def get_batch(
    dataset: npt.NDArray[np.integer[Any]],
    batch_size: int,
    context_length: int,
    device: "str | torch.device",
    generator: "torch.Generator | None" = None,
    rows: slice | None = None,
) -> "tuple[torch.Tensor, torch.Tensor]":
    """Draw random windows of a long sequence, and what follows each of their tokens.

    Each window starts anywhere from 0 to len(dataset) - context_length - 1, all equally likely.

    Args:
        dataset: Token ids, (num_tokens,), any integer type; may be a memory map, of which only the
            windows are read.
        batch_size: Windows to draw, with replacement.
        context_length: Tokens in a window.
        device: Where the result goes.
        generator: Source of the randomness; None means torch's global one.
        rows: Read and return only these windows of the batch; None: all.

    Returns:
        Inputs and targets, both (batch_size, context_length) int64, or fewer rows; the targets are
        the inputs shifted by one.

    Raises:
        TypeError: The dataset does not hold integers.
        ValueError: The dataset is not 1-D or too short for one window, or a size is below 1.
    """
    # Here and not above: encoding a text then needs neither the time nor the memory of torch.
    import torch

    if dataset.ndim != 1:
        raise ValueError(f"dataset has the shape {dataset.shape} and must have one axis")
    if not np.issubdtype(dataset.dtype, np.integer):
        raise TypeError(f"dataset holds {dataset.dtype} and must hold integers")
    for name, value in (("batch_size", batch_size), ("context_length", context_length)):
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
    num_starts = len(dataset) - context_length
    if num_starts < 1:
        raise ValueError(
            f"dataset has {len(dataset)} tokens, but context_length={context_length} needs at "
            f"least {context_length + 1}: use more text or a shorter context"
        )
    source = generator.device if generator is not None else torch.device("cpu")
    starts = torch.randint(num_starts, (batch_size,), generator=generator, device=source)
    if rows is not None:
        starts = starts[rows]
    return read_windows(dataset, starts.cpu().numpy(), context_length, device)


def read_windows(
    dataset: npt.NDArray[np.integer[Any]],
    starts: npt.NDArray[np.int64],
    context_length: int,
    device: "str | torch.device",
) -> "tuple[torch.Tensor, torch.Tensor]":
    """Read windows of a long sequence, and what follows each of their tokens.

    Args:
        dataset: Token ids, (num_tokens,).
        starts: Where the windows begin, (batch_size,); context_length + 1 tokens must follow.
        context_length: Tokens in a window.
        device: Where the result goes.

    Returns:
        As `get_batch`.
    """
    import torch

    target = torch.device(device)
    places = starts[:, None] + np.arange(context_length + 1)
    # One read for both: the windows with the token after each.
    windows = torch.from_numpy(dataset[places].astype(np.int64))
    x, y = windows[:, :-1].contiguous(), windows[:, 1:].contiguous()
    if target.type == "cuda" and torch.cuda.is_available():
        # From pinned memory the copy runs while the device computes.
        return (
            x.pin_memory().to(target, non_blocking=True),
            y.pin_memory().to(target, non_blocking=True),
        )
    return x.to(target), y.to(target)
