"""Split text into pre-tokens (words and the like), whose borders no token of bpe.py crosses.

First of three files (pretokenize, bpe, tokenizer), none of which needs torch. A special token is a
string such as <|endoftext|>, which marks the end of a document: it is always one token. Special
tokens are found first; the text between them is split by GPT-2's pattern.

Every byte of a file reaches the tokens. Files are read as bytes and decoded with "surrogateescape",
an error handler that turns each invalid byte into a lone surrogate; `text_to_bytes` turns it back.
Line ends are never translated.
Tested by `make test ARGS="-k pretokenize"`.
"""

import re
from collections import Counter
from collections.abc import Sequence

import regex

PRETOKEN = regex.compile(r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
"""The pattern of GPT-2's code (for the idea see Radford et al. 2019, sec. 2.2). In order: English
endings such as 's; letters, digits or other visible characters, with at most one space before them;
white space, less its last character if a visible one follows, so that a space there goes with what
follows; other white space. Together they match every character of a text."""


def text_to_bytes(text: str) -> bytes:
    """Encode text as UTF-8; surrogates of "surrogateescape" become the bytes they stand for.

    Another lone surrogate stands for no byte and raises UnicodeEncodeError.
    """
    return text.encode("utf-8", "surrogateescape")


def check_special_tokens(special_tokens: Sequence[str]) -> None:
    """Raise ValueError if a special token is empty or given more than once."""
    if "" in special_tokens or len(set(special_tokens)) < len(special_tokens):
        raise ValueError(f"special_tokens={special_tokens} has an empty or repeated one: remove it")


def special_pattern(special_tokens: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern that finds special tokens; of those that start together the longest wins.

    Its `split` returns ordinary text at even positions and special tokens at odd ones.
    """
    # Alternatives are tried in order, so the longest stands first. Without special tokens, (?!)
    # never matches, where an empty pattern would match everywhere.
    longest_first = sorted(special_tokens, key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first)) or '(?!)'})")


def count_pretokens(text: str, special_tokens: Sequence[str]) -> Counter[bytes]:
    """Count the pre-tokens of a text, as bytes; special tokens are boundaries and not counted.

    >>> count_pretokens("a cat, a<|endoftext|>a mat", ["<|endoftext|>"])
    Counter({b'a': 2, b' cat': 1, b',': 1, b' a': 1, b' mat': 1})
    """
    counts: Counter[bytes] = Counter()
    for ordinary_text in special_pattern(special_tokens).split(text)[::2]:
        counts.update(map(text_to_bytes, PRETOKEN.findall(ordinary_text)))
    return counts
