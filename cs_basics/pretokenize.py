"""Cut text into pre-tokens, the words inside which byte-pair encoding merges.

First of three files (pretokenize, bpe, tokenizer), none of which needs torch. Every byte of a file
survives: text is decoded with the "surrogateescape" error handler, which turns an invalid byte into
a lone surrogate that encodes back to that byte, and line ends are never translated.

Test: pytest tests/project/test_pretokenize.py
"""

import codecs
import errno
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import regex

from cs_basics.fast.text.cuts import CUT

PRETOKEN = regex.compile(r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
"""GPT-2's split pattern; its alternatives cover every character, so nothing falls between."""

_PLAIN_PRETOKEN = re.compile(
    r"'(?:[sdmt]|ll|ve|re)| ?[A-Za-z]+| ?[0-9]+| ?[^\t-\r A-Za-z0-9]+"
    r"|[\t-\r ]+(?![^\t-\r ])|[\t-\r ]+"
)
_ASCII = bytes(range(128))
_TYPOGRAPHY = re.compile(rb"(?:\xe2\x80[\x90-\xa7])*")  # U+2010 to U+2027: dashes, quotes, dots

BLOCK_BYTES = 1 << 19
"""Bytes read at once from what cannot be mapped into memory, such as a pipe."""

# REVERSE makes a search find the last one.
_LAST_CUT = regex.compile(CUT.pattern, flags=regex.REVERSE)

MAX_SPECIAL_TOKEN_LENGTH = 1_000
"""The search for one letter repeated n times takes time that grows with n^3: 0.3 s for this."""

_UNENCODABLE = regex.compile("[\ud800-\udc7f\udd00-\udfff]")


def pretokens(text: str) -> list[str]:
    """Find what PRETOKEN finds, in half the time where the text is plain English.

    There each class of characters is a short list, which the `re` module looks up faster.
    """
    others = b"" if text.isascii() else text_to_bytes(text).translate(None, _ASCII)
    return (_PLAIN_PRETOKEN if _TYPOGRAPHY.fullmatch(others) else PRETOKEN).findall(text)


def text_to_bytes(text: str) -> bytes:
    """Encode text as UTF-8, turning escaped raw bytes back into those bytes.

    A surrogate that "surrogateescape" does not make has no bytes and becomes U+FFFD.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return _UNENCODABLE.sub("\ufffd", text).encode("utf-8", "surrogateescape")


def read_text(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the text of a file in order, in blocks, with every byte kept (see the module's text).

    Raises:
        OSError: The file cannot be read.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    with Path(path).open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            yield decoder.decode(block)
        yield decoder.decode(b"", final=True)


def file_size(path: str | os.PathLike[str]) -> int:
    """Size of a text file in bytes; 0 means unknown, as for a pipe.

    Raises:
        OSError: There is no such file, or it is a folder.
        ValueError: It is an ordinary file and empty.
    """
    size = Path(path).stat().st_size
    if Path(path).is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder where a text file is needed", str(path))
    if size == 0 and Path(path).is_file():
        raise ValueError(f"{path} is empty: there is no text to work on")
    return size


def check_special_tokens(special_tokens: Sequence[str]) -> None:
    """Refuse special tokens that cannot be found in text, or that occur twice.

    Raises:
        TypeError: Not a sequence of strings.
        ValueError: An empty, repeated or endless token, or one that UTF-8 cannot hold.
    """
    # The annotation promises strings, but callers without a type checker break this promise.
    given: Any = special_tokens
    if isinstance(given, str | bytes):
        raise TypeError(f"special_tokens={given!r} must be a list of strings: [{given!r}]")
    for token in given:
        if not isinstance(token, str):
            raise TypeError(f"special token {token!r} must be a str, not {type(token).__name__}")
        if not token:
            raise ValueError("special_tokens contains an empty string: remove it")
        if len(token) > MAX_SPECIAL_TOKEN_LENGTH:
            raise ValueError(
                f"special token {token[:20]!r}... has {len(token)} characters, at most "
                f"{MAX_SPECIAL_TOKEN_LENGTH} are possible"
            )
        if _holds_surrogate(token):
            raise ValueError(f"special token {token!r} contains a surrogate, which UTF-8 lacks")
    repeated = [token for token, count in Counter(special_tokens).items() if count > 1]
    if repeated:
        raise ValueError(f"special token {repeated[0]!r} is given more than once")


def _holds_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def special_pattern(special_tokens: Sequence[str]) -> regex.Pattern[str] | None:
    """Pattern that finds the special tokens, longest first; None if there are none.

    Its one group makes `split` return ordinary text at even and special tokens at odd positions.
    """
    if not special_tokens:
        return None
    longest_first = sorted(special_tokens, key=len, reverse=True)
    return regex.compile("(" + "|".join(map(regex.escape, longest_first)) + ")")


def independent_blocks(chunks: Iterable[str], special_tokens: Sequence[str]) -> Iterator[str]:
    """Cut a text that arrives in arbitrary chunks at places that no pre-token crosses.

    The special tokens and pre-tokens of the blocks, one block after another, are those of the whole
    text, so that blocks can be handled one at a time, or by several processes. A block is yielded
    as soon as it is certain; what waits is seldom more than the longest special token and a word.
    Only a text without any place to cut, such as one endless word, has to wait for its end.

    Raises:
        TypeError: A chunk is not a str.
    """
    specials = special_pattern(special_tokens)
    longest_special = max(map(len, special_tokens), default=1)
    held = ""
    waiting: list[str] = []
    waiting_length = 0
    for chunk in chunks:
        if not isinstance(chunk, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a chunk of text must be a str, not {type(chunk).__name__}")
        if not chunk:
            continue
        waiting.append(chunk)
        waiting_length += len(chunk)
        if waiting_length < len(held):
            continue  # at least doubling the held text each time keeps the whole linear in time
        held = "".join([held, *waiting])
        waiting, waiting_length = [], 0
        cut = _last_cut(held, specials, longest_special)
        if cut:
            yield held[:cut]
            held = held[cut:]
    if held or waiting:
        yield "".join([held, *waiting])


def _last_cut(text: str, specials: regex.Pattern[str] | None, longest_special: int) -> int:
    """Last index at which `text` can be cut whatever follows it; 0 if there is none."""
    # Of every index up to this one it is known which special token starts there, if any.
    settled = len(text) - longest_special
    after_special = 0
    for match in specials.finditer(text) if specials else ():
        if match.start() > settled:
            break
        after_special = match.end()
    # endpos is one more since a cut at `settled + 1` looks at the character there.
    cut = _LAST_CUT.search(text, after_special, max(settled + 2, after_special))
    return cut.start() if cut else after_special
