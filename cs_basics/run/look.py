"""A look at a text before it is prepared: warn of what is odd, refuse what cannot be trained on.

Reading it once takes a tenth of what encoding takes.
"""

import codecs
import filecmp
import json
import logging
import mmap
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from cs_basics.settings.run import END_OF_TEXT

logger = logging.getLogger(__name__)

BLOCK_BYTES = 1 << 20
"""Bytes decoded at once."""
NUL_SHARE = 0.05
"""Share of zeros at the beginning from which a file is no text in UTF-8."""
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
STRETCH_BYTES, MAX_STRETCHES = 256, 10_000
"""Bytes after a line end, and how many of these are sought in another text: texts of one author
share many words, but hardly any stretch."""
MAX_SHARED = 0.02
"""Share of its stretches above which a text counts as standing in another one."""


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
        ValueError: It is empty or blank, packed, in UTF-16 or other binary data, or the same as the
            training text.
    """
    check_is_text(path)
    if not path.is_file():
        return
    if train is not None and filecmp.cmp(path, train, shallow=False):
        raise ValueError(
            f"{path} is the same as the training text {train}: validate on text that the model has "
            "not seen"
        )
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        _check_beginning(path, text[:BLOCK_BYTES])
        if not re.search(rb"\S", text):
            raise ValueError(f"{path} holds nothing but blanks: name a file with text in it")
        odd = [*_oddities(path, text), *_long_words(text)]
        if special_tokens and all(text.find(token.encode()) < 0 for token in special_tokens):
            none = f"no {' and no '.join(special_tokens)}"
            odd.append(f"{none}: stories never end, and samples run on")
    if train is not None and (share := shared(path, train)) > MAX_SHARED:
        odd.append(f"{share:.0%} of what follows its line ends stands in {train}, too")
    if odd:
        warn_of(path, "; ".join(odd))


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


def shared(text: Path, other: Path) -> float:
    """Return which share of a text's stretches stand in another text, too."""
    own = set(islice(_stretches(text), MAX_STRETCHES))
    return len(own.intersection(_stretches(other, own))) / max(1, len(own))


def _stretches(path: Path, sought: Collection[bytes] | None = None) -> Iterator[bytes]:
    """Yield what follows each line end; of another text only what may be among those sought."""
    # Eight bytes in the middle tell nearly all of them apart.
    middle = STRETCH_BYTES // 2
    words = np.array(
        [int.from_bytes(stretch[middle : middle + 8], "little") for stretch in sought or ()],
        np.uint64,
    )
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        for place in range(0, len(text), BLOCK_BYTES):
            block = text[place : place + BLOCK_BYTES + STRETCH_BYTES]
            beginnings = np.frombuffer(block, np.uint8)[: max(0, len(block) - STRETCH_BYTES)]
            starts = 1 + np.flatnonzero(beginnings == ord("\n"))
            if sought is not None and len(starts):
                held = np.ndarray(len(block) - 7, "<u8", block, strides=(1,))[starts + middle]
                starts = starts[np.isin(held, words)]
            for start in starts.tolist():
                yield block[start : start + STRETCH_BYTES]


def _check_beginning(path: Path, beginning: bytes) -> None:
    """Refuse what its first bytes show to be no text, with the command that makes a text of it."""
    given = shlex.quote(str(path))
    for mark, (name, command) in PACKED.items():
        if beginning.startswith(mark):
            unpacked = path.with_suffix("") if path.with_suffix("").suffix else f"{path}.txt"
            command = command.format(given=given, text=shlex.quote(str(unpacked)))
            raise ValueError(f"{path} is {name}, not text; this makes a text of it: {command}")
    has_mark = beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if has_mark or beginning.count(0) > NUL_SHARE * len(beginning):
        low, high = (beginning[place::2].count(0) for place in (0, 1))
        name = f"UTF-16{'' if has_mark else 'LE' if high > low else 'BE'}"
        converted = shlex.quote(f"{path}.utf8")
        raise ValueError(
            f"{path} is binary and has to be text in UTF-8; if it is text in {name}, this converts "
            f"it: iconv -f {name} -t UTF-8 {given} > {converted}"
        )


def _oddities(path: Path, text: mmap.mmap) -> Iterator[str]:
    """Yield a sentence for each thing that is odd about the bytes, with what mends it."""
    given, mended = shlex.quote(str(path)), shlex.quote(f"{path}.txt")
    beginning = text[:BLOCK_BYTES]
    if beginning.startswith(codecs.BOM_UTF8):
        yield (
            "it begins with a byte-order mark, 3 bytes that become tokens "
            f"(tail -c +4 {given} > {mended} removes it)"
        )
    if key := _key_of_json_lines(beginning):
        yield (
            "each line is a JSON object, and the model would learn to write those "
            f"(jq -r '.{key}, \"{END_OF_TEXT}\"' {given} > {mended} takes the texts out)"
        )
    if (place := _first_invalid(text)) is not None:
        yield (
            f"byte {place:,} is not UTF-8 "
            f"(iconv -f LATIN1 -t UTF-8 {given} > {mended} converts Latin-1)"
        )
    if (place := text.find(b"\0")) >= 0:
        yield f"byte {place:,} is NUL (tr -d '\\0' < {given} > {mended} removes all of them)"
    if beginning.partition(b"\n")[0].endswith(b"\r"):
        yield (
            "lines end with CRLF, which the model will write, too "
            f"(tr -d '\\r' < {given} > {mended} removes it)"
        )


def _first_invalid(text: mmap.mmap) -> int | None:
    """Return the place of the first byte that is not UTF-8, if there is one."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for place in range(0, len(text), BLOCK_BYTES):
        waiting, block = len(decoder.getstate()[0]), text[place : place + BLOCK_BYTES]
        try:
            decoder.decode(block, final=place + len(block) == len(text))
        except UnicodeDecodeError as error:
            return place - waiting + error.start
    return None


def _key_of_json_lines(beginning: bytes) -> str | None:
    """Return the key of the longest string where each line is a JSON object."""
    try:
        objects = [json.loads(line) for line in beginning.split(b"\n")[:-1][:2]]
        texts = {key: value for key, value in objects[0].items() if isinstance(value, str)}
    except (ValueError, AttributeError, IndexError, RecursionError):
        return None
    is_lines = all(isinstance(held, dict) for held in objects)
    return max(texts, key=lambda key: len(texts[key]), default=None) if is_lines else None


def _long_words(text: mmap.mmap) -> Iterator[str]:
    """Yield a sentence if there is a word from which it takes long to learn merges."""
    longest, place = 0, 0
    unbroken = re.compile(rb"\S+")
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
