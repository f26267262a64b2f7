"""Byte-pair encoding by counting and searching everything anew each time."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import regex

from oracles import CHOSEN

Merge = tuple[bytes, bytes]


PRETOKEN = regex.compile(r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")


def split_at_specials(text: str, special_tokens: Sequence[str]) -> list[str]:
    """Split a text into special tokens and the segments between them; the longest one wins."""
    segments, start = [], 0
    starts = {special: text.find(special) for special in special_tokens if special}
    while True:
        for special, index in starts.items():
            if 0 <= index < start:
                starts[special] = text.find(special, start)
        found = [(index, -len(special), special) for special, index in starts.items() if index >= 0]
        if not found:
            return [segment for segment in [*segments, text[start:]] if segment]
        index, _, special = min(found)
        segments += [text[start:index], special]
        start = index + len(special)


def as_bytes(pretoken: str) -> list[bytes]:
    return [bytes([byte]) for byte in pretoken.encode("utf-8", "surrogateescape")]


def merged(tokens: Sequence[bytes], pair: Merge) -> list[bytes]:
    """Join every occurrence of a pair, from the left."""
    if pair not in pairwise(tokens):  # Most merges do not occur in a pre-token.
        return list(tokens)
    result: list[bytes] = []
    index = 0
    while index < len(tokens):
        if tuple(tokens[index : index + 2]) == pair:
            result.append(pair[0] + pair[1])
            index += 2
        else:
            result.append(tokens[index])
            index += 1
    return result


def merged_by_rank(pretoken: str, ranks: Mapping[Merge, int]) -> list[bytes]:
    """Apply to the bytes of a pre-token, again and again, the earliest merge that occurs in it."""
    tokens = as_bytes(pretoken)
    while known := ranks.keys() & set(pairwise(tokens)):
        tokens = merged(tokens, min(known, key=ranks.__getitem__))
    return tokens


def pairs_of(tokens: Sequence[bytes]) -> list[Merge]:
    return list(pairwise(tokens))


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


def tied(key: Any) -> Any:
    """Order what decides between equally frequent pairs: the greater one wins, or the lesser."""
    return Reversed(key) if "ties_lesser" in CHOSEN else key


def most_frequent(pair: Merge, count: int) -> tuple[int, Any]:
    """The most frequent pair is merged; of several, the one that the tie rule says."""
    return count, tied(pair)


def train_bpe(
    text: bytes,
    vocab_size: int,
    special_tokens: Sequence[str],
    rank: Callable[[Merge, int], Any] | None = None,
    counts: Counter[str] | None = None,
    fewest: int = 1,
) -> list[Merge]:
    """Count everything anew before each merge; the pair with the greatest rank is merged.

    Args:
        text: What to learn from.
        vocab_size: As for the adapter.
        special_tokens: As for the adapter.
        rank: Orders pairs with their counts.
        counts: Occurrences of each pre-token, instead of those in the text.
        fewest: Stop when no pair occurs this often.
    """
    rank = rank or most_frequent
    counts = pretokens(text, special_tokens) if counts is None else counts
    splits = [(as_bytes(pretoken), count) for pretoken, count in counts.items()]
    merges: list[Merge] = []
    while len(merges) < vocab_size - size_without_merges(special_tokens):
        pair_counts: Counter[Merge] = Counter()
        for tokens, count in splits:
            for pair in pairs_of(tokens):
                pair_counts[pair] += count
        if not pair_counts or max(pair_counts.values()) < fewest:
            break
        best = max(pair_counts, key=lambda pair: rank(pair, pair_counts[pair]))
        merges.append(best)
        splits = [(merged(tokens, best), count) for tokens, count in splits]
    return merges


def size_without_merges(special_tokens: Sequence[str]) -> int:
    """Count the bytes and the special tokens; one of one byte is that byte."""
    return 256 + sum(len(special.encode()) > 1 for special in special_tokens)


def pretokens(text: bytes, special_tokens: Sequence[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for segment in split_at_specials(text.decode("utf-8", "surrogateescape"), special_tokens):
        if segment not in special_tokens:
            counts.update(PRETOKEN.findall(segment))
    return counts


def encode(text: str, tokenizer: Mapping[str, Any]) -> list[int]:
    """Apply the merges to each pre-token.

    Special tokens that the vocabulary lacks get the ids after the greatest one.
    """
    specials = tokenizer["special_tokens"] or []
    token_ids = ids_of(tokenizer["vocab"], specials)
    ranks = {merge: rank for rank, merge in enumerate(tokenizer["merges"])}
    ids: list[int] = []
    for segment in split_at_specials(text, specials):
        if segment in specials:
            ids.append(token_ids[segment.encode()])
            continue
        for pretoken in PRETOKEN.findall(segment):
            ids += [token_ids[token] for token in merged_by_rank(pretoken, ranks)]
    return ids


def ids_of(vocab: Mapping[int, bytes], specials: Sequence[str]) -> dict[bytes, int]:
    token_ids = {token: token_id for token_id, token in vocab.items()}
    for special in specials:
        token_ids.setdefault(special.encode(), max([*vocab, *token_ids.values()]) + 1)
    return token_ids


def decode(ids: Sequence[int], vocab: Mapping[int, bytes]) -> str:
    return b"".join(vocab[token_id] for token_id in ids).decode("utf-8", "replace")


def vocab_of(merges: Sequence[Merge], special_tokens: Sequence[str] = ()) -> dict[int, bytes]:
    """Number the bytes, then the special tokens, then what the merges make."""
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [special.encode() for special in special_tokens]
    tokens += [left + right for left, right in merges]
    return dict(enumerate(tokens))
