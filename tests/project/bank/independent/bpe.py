"""Byte-pair encoding: learn which adjacent tokens to merge, and apply what was learned."""

import logging
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import regex

from cs_basics.pretokenize import PRETOKEN

_log = logging.getLogger(__name__)

Vocab = dict[int, bytes]
Merge = tuple[bytes, bytes]
SINGLE_BYTES = [bytes([byte]) for byte in range(256)]


def train_bpe(
    input_path: str | os.PathLike[str], vocab_size: int, special_tokens: Sequence[str]
) -> tuple[Vocab, list[Merge]]:
    specials = [t.encode() for t in special_tokens if len(t.encode()) > 1]
    needed = len(SINGLE_BYTES) + len(specials)
    if "" in special_tokens or len(set(special_tokens)) < len(special_tokens):
        raise ValueError(f"special tokens must not be empty or repeated: {list(special_tokens)}")
    if vocab_size < needed:
        raise ValueError(f"vocab_size={vocab_size} is below {needed}: the bytes and special tokens")
    text = Path(input_path).read_bytes().decode("utf-8", "surrogateescape")
    if not text:
        raise ValueError(f"{input_path} is empty")
    words = _Words(_count_words(text, special_tokens))
    merges: list[Merge] = []
    while len(merges) < vocab_size - needed:
        pair = words.best()
        if pair is None:
            _log.warning("only %d of %d tokens: no pair is left", needed + len(merges), vocab_size)
            break
        words.merge(pair)
        merges.append(pair)
    tokens = specials + SINGLE_BYTES + [a + b for a, b in merges]
    return dict(enumerate(tokens)), merges


def _count_words(text: str, special_tokens: Sequence[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    walls = sorted(special_tokens, key=len, reverse=True)
    stretches = regex.split("|".join(map(regex.escape, walls)), text) if walls else [text]
    for stretch in stretches:
        counts.update(found.group() for found in PRETOKEN.finditer(stretch))
    return counts


class _Words:
    """The different words, each as the tokens it is made of now, and how often pairs occur.

    The pairs lie on shelves, one for each frequency. A merge only takes from old pairs, and what
    it makes occurs at most as often as itself: the highest shelf in use never rises.
    """

    def __init__(self, counts: Counter[str]) -> None:
        self.often: list[int] = list(counts.values())
        self.made_of: list[list[bytes]] = [
            [SINGLE_BYTES[b] for b in word.encode("utf-8", "surrogateescape")] for word in counts
        ]
        self.frequency: dict[Merge, int] = {}
        self.lies_in: dict[Merge, set[int]] = {}
        self.shelves: dict[int, set[Merge]] = {}
        change: dict[Merge, int] = {}
        for number in range(len(self.made_of)):
            self._account(number, 1, change)
        self._shelve(change)
        self.highest = max(self.shelves, default=0)

    def best(self) -> Merge | None:
        while self.highest > 0:
            if shelf := self.shelves.get(self.highest):
                return max(shelf)
            self.highest -= 1
        return None

    def merge(self, pair: Merge) -> None:
        change: dict[Merge, int] = {}
        for number in list(self.lies_in[pair]):
            self._account(number, -1, change)
            self.made_of[number] = _replaced(self.made_of[number], pair)
            self._account(number, 1, change)
        self._shelve(change)

    def _account(self, number: int, sign: int, change: dict[Merge, int]) -> None:
        """Add the pairs of a word to the changes, or take them off."""
        tokens = self.made_of[number]
        for i in range(len(tokens) - 1):
            pair = tokens[i], tokens[i + 1]
            change[pair] = change.get(pair, 0) + sign * self.often[number]
            if sign > 0:
                self.lies_in.setdefault(pair, set()).add(number)
            elif pair in self.lies_in:
                self.lies_in[pair].discard(number)

    def _shelve(self, change: dict[Merge, int]) -> None:
        for pair, difference in change.items():
            if not difference:
                continue
            old = self.frequency.pop(pair, 0)
            if old:
                self.shelves[old].discard(pair)
                if not self.shelves[old]:
                    del self.shelves[old]
            if old + difference:
                self.frequency[pair] = old + difference
                self.shelves.setdefault(old + difference, set()).add(pair)
            else:
                del self.lies_in[pair]


def _replaced(tokens: list[bytes], pair: Merge) -> list[bytes]:
    done: list[bytes] = []
    for token in tokens:
        # "aaa": the first two are one token already when the third asks
        if done and (done[-1], token) == pair:
            done[-1] += token
        else:
            done.append(token)
    return done
