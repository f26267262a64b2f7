"""Split text into pre-tokens, words and the like: no token of bpe.py crosses their borders.

First of three files (pretokenize, bpe, tokenizer), none of which needs torch. A special token is a
string such as <|endoftext|>, which marks the end of a document: it is always one token. Special
tokens are found first; the text between them is split by GPT-2's pattern.

Every byte of a file survives. Files are read as bytes and decoded with the "surrogateescape" error
handler, which turns each invalid byte into a lone surrogate; `text_to_bytes` turns it back. Line
ends are never translated.

Tested by `make test ARGS="-k pretokenize"`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import regex

PRETOKEN = regex.compile(r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
"""GPT-2's pattern (Radford et al. 2019, sec. 2.2). Its alternatives are English endings such as 's;
letters, digits or other visible characters, with at most one space before them; white space up to
the last character before a word, so that a space there goes with the word; other white space. They
cover every character, so nothing falls between pre-tokens."""


def text_to_bytes(text: str) -> bytes:
    """Encode text as UTF-8; surrogates of "surrogateescape" become the bytes they stand for.

    Raises:
        UnicodeEncodeError: The text has another lone surrogate, which stands for no byte.
    """
    return text.encode("utf-8", "surrogateescape")


def check_special_tokens(special_tokens: Sequence[str]) -> None:
    """Refuse special tokens that cannot be found in text, or that occur twice.

    Raises:
        TypeError: Not a sequence of strings.
        ValueError: A token is empty, repeated or not valid Unicode.
    """
    if isinstance(special_tokens, str | bytes):
        raise TypeError(f"special_tokens={special_tokens!r} must be a list: [{special_tokens!r}]")
    for token, count in Counter(special_tokens).items():
        if not isinstance(token, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"special token {token!r} must be a str, not {type(token).__name__}")
        if not token:
            raise ValueError("special_tokens contains an empty string: remove it")
        if count > 1:
            raise ValueError(f"special token {token!r} is given more than once")
        token.encode("utf-8")  # Raises UnicodeEncodeError, a ValueError, if it is not valid.


def special_pattern(special_tokens: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern that finds special tokens; of overlapping ones the longest wins.

    Its `split` returns ordinary text at even positions and special tokens at odd ones.
    """
    # Alternatives are tried in order, so the longest stands first. Without special tokens, (?!)
    # never matches, where an empty pattern would match everywhere.
    longest_first = sorted(special_tokens, key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first)) or '(?!)'})")


def count_pretokens(text: str, special_tokens: Sequence[str]) -> Counter[bytes]:
    """Count the pre-tokens of a text, as bytes; special tokens are boundaries and not counted."""
    counts: Counter[str] = Counter()
    for ordinary_text in special_pattern(special_tokens).split(text)[::2]:
        counts.update(PRETOKEN.findall(ordinary_text))
    as_bytes: Counter[bytes] = Counter()
    for pretoken, count in counts.items():
        as_bytes[text_to_bytes(pretoken)] += count
    return as_bytes


def independent_chunks(chunks: Iterable[str], special_tokens: Sequence[str]) -> Iterator[str]:
    """Regroup a text that arrives in arbitrary chunks so that no token crosses two of them.

    The tokens of the new chunks, one chunk after another, are those of the whole text. A new chunk
    ends after a special token, or before a space or line end that follows a visible character: no
    pre-token crosses such a boundary, and no later text changes the pre-tokens before it. Text
    without a boundary is kept, and searched again with every chunk, until there is one.

    Raises:
        TypeError: A chunk is not a str.
    """
    specials = special_pattern(special_tokens)
    # Matches up to the last visible character that a space or line end follows.
    boundary = re.compile(r".*\S(?=[ \r\n])", re.DOTALL)
    longest_special = max(map(len, special_tokens), default=1)
    kept = ""
    for chunk in chunks:
        kept += chunk
        # A special token that begins at or after this index may not have arrived in full.
        safe_end = len(kept) - longest_special + 1
        end = 0
        for special in specials.finditer(kept):
            if special.start() >= safe_end:
                break
            end = special.end()
        # One character more, since the boundary looks at the space that follows it.
        if last_boundary := boundary.match(kept, end, safe_end + 1):
            end = last_boundary.end()
        if end:
            yield kept[:end]
            kept = kept[end:]
    if kept:
        yield kept
