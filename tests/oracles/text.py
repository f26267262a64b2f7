"""Byte-pair encoding by counting and searching everything anew each time."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import regex
from contract import current

Merge = tuple[bytes, bytes]


PRETOKEN = regex.compile(r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")


def split_at_specials(text: str, special_tokens: Sequence[str]) -> list[str]:
    """Cut a text around its special tokens, which are kept as pieces; the longest one wins."""
    pieces, start = [], 0
    places = {special: text.find(special) for special in special_tokens if special}
    while True:
        for special, place in places.items():
            if 0 <= place < start:
                places[special] = text.find(special, start)
        found = [(place, -len(special), special) for special, place in places.items() if place >= 0]
        if not found:
            return [piece for piece in [*pieces, text[start:]] if piece]
        place, _, special = min(found)
        pieces += [text[start:place], special]
        start = place + len(special)


def as_bytes(word: str) -> list[bytes]:
    return [bytes([byte]) for byte in word.encode("utf-8", "surrogateescape")]


def merged(word: Sequence[bytes], pair: Merge) -> list[bytes]:
    """Join every occurrence of a pair, from the left."""
    if pair not in pairwise(word):  # Most merges do not occur in a word.
        return list(word)
    result: list[bytes] = []
    place = 0
    while place < len(word):
        if tuple(word[place : place + 2]) == pair:
            result.append(pair[0] + pair[1])
            place += 2
        else:
            result.append(word[place])
            place += 1
    return result


def merged_in_turn(word: str, merges: Sequence[Merge]) -> list[bytes]:
    """Apply merges one after another to the bytes of a word."""
    parts = as_bytes(word)
    pairs = set(pairwise(parts))
    for merge in merges:
        if merge in pairs:
            parts = merged(parts, merge)
            pairs = set(pairwise(parts))
    return parts


def pairs_of(word: Sequence[bytes]) -> list[Merge]:
    return list(pairwise(word))


class Reversed:
    """Orders the other way round."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: "Reversed") -> bool:
        return other.value < self.value

    def __gt__(self, other: "Reversed") -> bool:
        return other.value > self.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reversed) and other.value == self.value

    __hash__ = None


def usual_rank() -> Callable[[Merge, int], Any]:
    """The most frequent pair is merged; of several, the greater or the smaller one."""
    if current().bpe_ties == "greater":
        return lambda pair, count: (count, pair)
    return lambda pair, count: (count, Reversed(pair))


def train_bpe(
    text: bytes,
    vocab_size: int,
    special_tokens: Sequence[str],
    rank: Callable[[Merge, int], Any] | None = None,
    words: Counter[str] | None = None,
) -> list[Merge]:
    """Count everything anew before each merge; the pair with the greatest rank is merged."""
    rank = rank or usual_rank()
    counts = pretokens(text, special_tokens) if words is None else words
    pieces = [(as_bytes(word), count) for word, count in counts.items()]
    merges: list[Merge] = []
    while len(merges) < vocab_size - 256 - len(special_tokens):
        pair_counts: Counter[Merge] = Counter()
        for word, count in pieces:
            for pair in pairs_of(word):
                pair_counts[pair] += count
        if not pair_counts:
            break
        best = max(pair_counts, key=lambda pair: rank(pair, pair_counts[pair]))
        merges.append(best)
        pieces = [(merged(word, best), count) for word, count in pieces]
    return merges


def pretokens(text: bytes, special_tokens: Sequence[str]) -> Counter[str]:
    words: Counter[str] = Counter()
    for piece in split_at_specials(text.decode("utf-8", "surrogateescape"), special_tokens):
        if piece not in special_tokens:
            words.update(PRETOKEN.findall(piece))
    return words


def encode(text: str, tokenizer: Mapping[str, Any]) -> list[int]:
    """Apply the merges one after another, in the order of their creation, to each pre-token.

    Special tokens that the vocabulary lacks get the ids after the greatest one.
    """
    specials = tokenizer["special_tokens"] or []
    token_ids = ids_of(tokenizer["vocab"], specials)
    ids: list[int] = []
    for piece in split_at_specials(text, specials):
        if piece in specials:
            ids.append(token_ids[piece.encode()])
            continue
        for word in PRETOKEN.findall(piece):
            ids += [token_ids[part] for part in merged_in_turn(word, tokenizer["merges"])]
    return ids


def ids_of(vocab: Mapping[int, bytes], specials: Sequence[str]) -> dict[bytes, int]:
    token_ids = {piece: token for token, piece in vocab.items()}
    for special in specials:
        token_ids.setdefault(special.encode(), max([*vocab, *token_ids.values()]) + 1)
    return token_ids


def decode(ids: Sequence[int], vocab: Mapping[int, bytes]) -> str:
    return b"".join(vocab[token] for token in ids).decode("utf-8", "replace")


def vocab_of(merges: Sequence[Merge], special_tokens: Sequence[str] = ()) -> dict[int, bytes]:
    """Number the bytes, then the special tokens, then what the merges make."""
    pieces = [bytes([byte]) for byte in range(256)]
    pieces += [special.encode() for special in special_tokens]
    pieces += [left + right for left, right in merges]
    return dict(enumerate(pieces))
