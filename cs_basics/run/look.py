"""A look at a text before it is prepared: warn of what is odd, refuse what cannot be trained on.

A sixteenth of a long text is read, and all of it only to find a special token that is not in that
part, or validation text in a training text: a second for 600 MB, a tenth of what encoding
takes.
"""

import codecs
import filecmp
import json
import logging
import mmap
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cs_basics.settings.run import END_OF_TEXT

logger = logging.getLogger(__name__)
"""Its own, so that a flag of the scripts can turn it off."""

PIECE_BYTES, STEP_BYTES = 1 << 16, 1 << 20
"""Bytes read at a place of a text, and from one place to the next."""
BLOCK_BYTES = 1 << 18
"""Bytes read at once where all are read."""
NUL_SHARE = 0.05
"""Share of zeros among the upper bytes of characters from which a text is UTF-16 or UTF-32."""
WIDE = {"UTF-16LE": {1, 3}, "UTF-16BE": {0, 2}, "UTF-32LE": {1, 2, 3}, "UTF-32BE": {0, 1, 2}}
"""Which bytes of four are zeros in a text of ASCII characters."""
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32", codecs.BOM_UTF32_BE: "UTF-32",  # Begins with that of UTF-16.
    codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16",
}  # fmt: skip
PACKED = {
    b"\x1f\x8b": ("gzip", "gzip -dc {given} > {text}"),
    b"BZh": ("bzip2", "bzip2 -dc {given} > {text}"),
    b"\xfd7zXZ\0": ("xz", "xz -dc {given} > {text}"),
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -dc {given} > {text}"),
    b"PK\3\4": ("a zip archive", "unzip -p {given} > {text}"),
    b"%PDF-": ("a PDF", "pdftotext {given} {text}"),
    b"PAR1": (
        "Parquet",
        'python -c \'import sys, pandas; print(*pandas.read_parquet(sys.argv[1])["text"], '
        f'sep="\\n{END_OF_TEXT}\\n")\' {{given}} > {{text}}',
    ),
    b"\x93NUMPY": (
        "an array of NumPy",
        "python -c 'import sys, numpy; print(*numpy.load(sys.argv[1]), sep=\"\\n\")' "
        "{given} > {text}",
    ),
}
"""First bytes of what is no text: its name, and the command that makes a text of it."""
WORD_STEP, MAX_WORD = 1 << 17, 150_000
"""Bytes from one place where a word is measured to the next; bytes of a word from which learning
its merges takes about a minute, and four times as long for twice as many."""
WORD = re.compile(r"[^\W\d_]+|\d+|(?:[^\w\s]|_)+")
"""About what the pre-tokens of GPT-2's pattern are."""
CONTINUATION = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 that begin no character."""

STRETCH_BYTES = 256
"""Texts of one author share many words honestly, but hardly any stretch."""
MAX_SHARED = 0.02
"""Share of its stretches above which a text counts as standing in another one."""
MAX_STRETCHES = 10_000
WORD_AT = STRETCH_BYTES // 2
"""The place in a stretch of the eight bytes by which it is first compared."""


def look_at_text(
    path: Path, special_tokens: Sequence[str] = (END_OF_TEXT,), train: Path | None = None
) -> None:
    """Warn of what is odd about a text, in one line.

    Args:
        path: The text; nothing is said of a pipe, which can be read only once.
        special_tokens: One of them should separate the stories.
        train: The training text, if this is the validation text that goes with it.

    Raises:
        OSError: A text does not exist or is a folder.
        ValueError: It is empty or blank, packed, in UTF-16 or UTF-32, or the same as the training
            text.
    """
    check_is_text(path)
    if not path.is_file():
        return
    if train is not None and filecmp.cmp(path, train, shallow=False):
        raise ValueError(
            f"{path} is the same as the training text {train}: validate on text that the model has "
            "not seen"
        )
    pieces = list(_pieces(path))
    check_not_packed(path, pieces[0])
    if all(piece.isspace() for piece in pieces):
        raise ValueError(f"{path} holds nothing but blanks: name a file with text in it")
    if encoding := _wide_encoding(pieces[0]):
        given, converted = shlex.quote(str(path)), shlex.quote(f"{path}.utf8")
        raise ValueError(
            f"{path} is {encoding} and has to be UTF-8; this converts it: "
            f"iconv -f {encoding} -t UTF-8 {given} > {converted}"
        )
    odd = [*_oddities(path, pieces), *_long_words(path)]
    if special_tokens and not any(_holds(path, pieces, token) for token in special_tokens):
        odd.append(f"no {' and no '.join(special_tokens)}: stories never end, and samples run on")
    if train is not None and (warning := warning_of_shared(path, train)):
        odd.append(warning)
    if odd:
        num_read = sum(map(len, pieces))
        part = "" if num_read == path.stat().st_size else f" ({num_read / 1e6:.1f} MB looked at)"
        warn_of(path, "; ".join(odd) + part)


def warn_of(path: Path, oddity: str) -> None:
    """Log what is odd about a text."""
    logger.warning("warning: %s: %s", path, oddity)


def check_is_text(path: Path) -> None:
    """Refuse what is missing, a folder or empty; errors as in `look_at_text`."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: name a text file")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a text file")
    if path.is_file() and path.stat().st_size == 0:
        raise ValueError(f"{path} is empty: name a file with text in it")


def check_not_packed(path: Path, beginning: bytes) -> None:
    """Refuse what its first bytes show to be no text.

    Raises:
        ValueError: With the command that makes a text of it.
    """
    for mark, (name, command) in PACKED.items():
        if beginning.startswith(mark):
            unpacked = path.with_suffix("") if path.with_suffix("").suffix else f"{path}.txt"
            given, text = shlex.quote(str(path)), shlex.quote(str(unpacked))
            raise ValueError(
                f"{path} is {name}, not text; this makes a text of it: "
                + command.format(given=given, text=text)
            )


def warning_of_shared(text: Path, other: Path) -> str:
    """Say how much of a text stands in another one; "" if it is no more than chance."""
    share, num_places = shared(text, other)
    if share <= MAX_SHARED:
        return ""
    of_it = f"{share:.0%} of its {STRETCH_BYTES}-byte stretches"
    return f"{of_it} stand in {other}, too (at {num_places:,} places)"


def shared(text: Path, other: Path) -> tuple[float, int]:
    """Return which share of a text's stretches stand in another text, and how many were sought.

    They are those that follow a line end, wherever it is. Of the other text only those are looked
    at whose eight bytes at WORD_AT are those of one of the first, by 20 bits of a hash.
    """
    own = set(islice(_stretches(text), MAX_STRETCHES))
    is_sought = np.zeros(1 << 20, bool)
    for stretch in own:
        is_sought[_hashes(stretch, np.zeros(1, np.intp))] = True
    found = own.intersection(_stretches(other, is_sought)) if own else own
    return len(found) / max(1, len(own)), len(own)


def _stretches(path: Path, is_sought: npt.NDArray[np.bool_] | None = None) -> Iterator[bytes]:
    """Yield the stretch after each line end; if hashes are given, only where the hash is one."""
    for block in _blocks(path):
        ends = np.flatnonzero(np.frombuffer(block, np.uint8)[:-STRETCH_BYTES] == ord("\n"))
        if is_sought is not None and len(ends):
            ends = ends[is_sought[_hashes(block, ends + 1)]]
        for start in (ends + 1).tolist():
            yield block[start : start + STRETCH_BYTES]


def _hashes(block: bytes, starts: npt.NDArray[np.intp]) -> npt.NDArray[np.uint64]:
    """Return a hash of 20 bits of the word of each stretch."""
    words = np.ndarray(len(block) - 7, "<u8", block, strides=(1,))
    return words[starts + WORD_AT] * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(44)


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for place in range(0, path.stat().st_size, STEP_BYTES):
            file.seek(place)
            yield file.read(PIECE_BYTES)


def _blocks(path: Path) -> Iterator[bytes]:
    """Yield a whole text; a block begins with the last STRETCH_BYTES of the one before."""
    with path.open("rb", buffering=0) as file:
        for place in range(0, path.stat().st_size, BLOCK_BYTES - STRETCH_BYTES):
            file.seek(place)
            yield file.read(BLOCK_BYTES)


def _holds(path: Path, pieces: Sequence[bytes], token: str) -> bool:
    sought = token.encode()
    # Most texts without it lack one of its bytes, which is found out several times as fast.
    return any(
        all(byte in part for byte in sought) and sought in part
        for part in chain(pieces, _blocks(path))
    )


def _wide_encoding(beginning: bytes) -> str | None:
    """Return the name of a text's encoding if its characters have two or four bytes."""
    for mark, name in BYTE_ORDER_MARKS.items():
        if beginning.startswith(mark):
            return name
    columns = [beginning[place::4] for place in range(4)]
    zeros = {
        place for place, column in enumerate(columns) if column.count(0) > NUL_SHARE * len(column)
    }
    return next((name for name, places in WIDE.items() if zeros == places), None)


def _oddities(path: Path, pieces: Sequence[bytes]) -> Iterator[str]:
    """Yield a sentence for each thing that is odd about the bytes."""
    given, mended = shlex.quote(str(path)), shlex.quote(f"{path}.txt")
    if pieces[0].startswith(codecs.BOM_UTF8):
        yield (
            "it begins with a byte-order mark, 3 bytes that become tokens "
            f"(tail -c +4 {given} > {mended} removes it)"
        )
    if key := _key_of_json_lines(pieces[0]):
        yield (
            "each line is a JSON object, and the model would learn to write those "
            f"(jq -r '.{key}, \"{END_OF_TEXT}\"' {given} > {mended} takes the texts out)"
        )
    num_read = sum(map(len, pieces))
    num_zeros = sum(piece.count(0) for piece in pieces)
    if num_invalid := sum(map(_num_invalid, pieces)):
        advice = "" if num_zeros else "; from Latin-1, iconv -f LATIN1 -t UTF-8 makes it"
        yield f"{num_invalid:,} bytes are not UTF-8 ({100 * num_invalid / num_read:.2g}%{advice})"
    if num_zeros:
        yield f"{num_zeros:,} bytes are NUL ({100 * num_zeros / num_read:.2g}%)"
    if num_long := sum(len(piece) == PIECE_BYTES and b"\n" not in piece for piece in pieces):
        yield f"no line end in {PIECE_BYTES:,} bytes, at {num_long:,} of {len(pieces):,} places"
    num_lines = sum(piece.count(b"\n") for piece in pieces)
    # "\r" first: most texts have none, which is found out faster.
    num_crlf = sum(piece.count(b"\r\n") for piece in pieces if b"\r" in piece)
    if num_crlf and num_crlf == num_lines:
        yield f"all {num_lines:,} line ends are CRLF, which the model will write, too"


def _key_of_json_lines(beginning: bytes) -> str | None:
    """Return the key of the longest string where each line is a JSON object."""
    try:
        objects = [json.loads(line) for line in beginning.split(b"\n")[:-1][:2]]
        texts = {key: value for key, value in objects[0].items() if isinstance(value, str)}
    except (ValueError, AttributeError, IndexError, RecursionError):
        return None
    is_lines = all(isinstance(held, dict) for held in objects)
    return max(texts, key=lambda key: len(texts[key]), default=None) if is_lines else None


def _long_words(path: Path) -> Iterator[str]:
    """Yield a sentence if there is a word from which it takes long to learn merges."""
    longest, place = 0, 0
    unbroken = re.compile(rb"\S+")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        while place < len(text):
            found = unbroken.match(text, place)
            end = found.end() if found else place
            if end - place >= MAX_WORD - WORD_STEP:
                # It has begun after the place before, where it would have been found.
                before = unbroken.match(text[max(0, place - WORD_STEP) : place][::-1])
                whole = text[place - (before.end() if before else 0) : end]
                words = WORD.findall(whole.decode("utf-8", "replace"))
                longest = max(longest, *(len(word.encode()) for word in words))
            place = (end // WORD_STEP + 1) * WORD_STEP
    if longest >= MAX_WORD:
        minutes = (longest / MAX_WORD) ** 2
        yield (
            f"a word of {longest:,} bytes, from which it takes about {minutes:,.0f} minutes to "
            "learn merges: break it by line ends"
        )


def _num_invalid(piece: bytes) -> int:
    """Return how many bytes are not UTF-8; a piece may begin and end within a character."""
    if piece.isascii():
        return 0
    piece = piece.lstrip(CONTINUATION)
    text, num_read = codecs.utf_8_decode(piece, "ignore", False)
    return num_read - len(text.encode())
