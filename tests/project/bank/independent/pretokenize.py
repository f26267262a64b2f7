"""Split text into pre-tokens: words and the like, inside which byte-pair encoding merges."""

import regex

PRETOKEN = regex.compile(r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
"""GPT-2's pattern; its alternatives cover every character, so nothing falls between pre-tokens."""
