"""Mistakes in training byte-pair encoding: lists of merges, no arrays."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from oracles import CHOSEN
from oracles import text as oracles
from oracles.text import Merge, Reversed, tied

from mistakes.encoding import (
    ANY_CASE,
    ASCII,
    CURLY,
    GPT4,
    NO_LOOKAHEAD,
    OF_RE,
    split_at_first,
    split_by_length,
)


def bpe_merges(text: bytes, vocab_size: int, special_tokens: Sequence[str]) -> dict[str, Any]:
    decoded = text.decode("utf-8", "surrogateescape")
    segments = without_specials(decoded, special_tokens)

    def split_at(specials: Sequence[str]) -> list[str]:
        """Split with the first alternative that fits, then drop what was found."""
        return [s for s in split_at_first(decoded, specials) if s not in specials]

    def in_chunks(count: int) -> list[str]:
        size = max(len(decoded) // count, 1)
        bounds = [*range(0, size * count, size), len(decoded)]
        chunks = [decoded[start:end] for start, end in pairwise(bounds)]
        found = [s for chunk in chunks for s in without_specials(chunk, special_tokens)]
        return [t for s in found for t in find(s)]

    find = oracles.PRETOKEN.findall

    def train(pretokens: Sequence[str] | None = None, **options: Any) -> list[Merge]:
        counts = None if pretokens is None else Counter(pretokens)
        return oracles.train_bpe(text, vocab_size, special_tokens, counts=counts, **options)

    right = train()
    num_single = 256 + len(special_tokens) - oracles.size_without_merges(special_tokens)
    answers = {
        "ties go to the smaller pair: the lexicographically greater one wins": train(
            rank=lambda pair, count: (count, tied(Reversed(pair)))
        ),
        **(
            {}
            if special_tokens
            else {
                "an empty list of special tokens cuts the text everywhere: the pattern of none"
                " fits anywhere": train(list(decoded))
            }
        ),
        **(
            {
                "a special token of one byte is counted beside that byte: it needs no second id": (
                    oracles.train_bpe(text, vocab_size - num_single, special_tokens)
                )
            }
            if num_single
            else {}
        ),
        "ties go to the pair that was seen first": train(rank=lambda _, count: count),
        "ties are broken by the joined bytes, not by the pair": train(
            rank=lambda pair, count: (count, tied(pair[0] + pair[1]))
        ),
        "ties are broken by the decoded text, not by the bytes": train(
            rank=lambda pair, count: (
                count,
                tied(tuple(p.decode("utf-8", "replace") for p in pair)),
            )
        ),
        "special tokens are counted as ordinary text": train(find(decoded)),
        "special tokens are cut out and the text around them is joined: they are boundaries": train(
            find("".join(segments))
        ),
        "the text is split at white space only, not by GPT-2's pattern": train(
            [t for s in segments for t in oracles.regex.findall(r"\S+|\s+", s)]
        ),
        "the text is not split into pre-tokens": train(segments),
        "line ends are translated when the file is read: \\r\\n must stay": train(
            [t for s in segments for t in find(s.replace("\r\n", "\n").replace("\r", "\n"))]
        ),
        "invalid bytes are replaced by U+FFFD: keep every byte": train(
            [t for s in segments for t in find(again(s, "replace"))]
        ),
        "invalid bytes are dropped: keep every byte": train(
            [t for s in segments for t in find(again(s, "ignore"))]
        ),
        "each distinct pre-token is counted once, however often it occurs": train(
            sorted({t for s in segments for t in find(s)})
        ),
        "the byte order mark at the start is dropped: keep every byte": oracles.train_bpe(
            text.removeprefix(b"\xef\xbb\xbf"), vocab_size, special_tokens
        ),
        "merging goes on past vocab_size: special tokens count too": oracles.train_bpe(
            text, vocab_size + len(special_tokens), special_tokens
        ),
        "training stops one merge early": right[
            : vocab_size - oracles.size_without_merges(special_tokens) - 1
        ],
        "pairs that occur only once are not merged: training goes on until vocab_size": recounted(
            text, vocab_size, special_tokens, fewest=2
        ),
        "ties go to the longer pair: the lexicographically greater one wins": train(
            rank=lambda pair, count: (count, len(pair[0] + pair[1]), tied(pair))
        ),
        **{
            f"ties go to the pair with the {which} ids: compare the bytes": by_ids(
                text, vocab_size, special_tokens, order
            )
            for which, order in {"greater": tuple, "smaller": Reversed}.items()
        },
        "repeated pairs are merged from the right": recounted(
            text, vocab_size, special_tokens, merge=merged_from_the_right
        ),
        "only the first occurrence in a pre-token is merged": recounted(
            text, vocab_size, special_tokens, merge=merged_once
        ),
        "each pair counts once in a pre-token, however often it is there": recounted(
            text, vocab_size, special_tokens, once=True
        ),
        "the text is lowered": train([t for s in segments for t in find(s.lower())]),
        "the text is lowered, and special tokens in it with it": train(
            [t for s in without_specials(decoded.lower(), special_tokens) for t in find(s)]
        ),
        "the text is normalised (NFC): learn from it as it is": train(
            [t for s in segments for t in find(unicodedata.normalize("NFC", s))]
        ),
        "white space beside special tokens and at the ends of the text is dropped": train(
            [t for s in segments for t in find(s.strip())]
        ),
        "the text is read line by line: white space may cross a line end": train(
            [t for s in segments for line in s.splitlines(keepends=True) for t in find(line)]
        ),
        "the text is split at \\n: white space may cross a line end": train(
            [t for s in segments for line in s.split("\n") for t in find(line)]
        ),
        "a shorter special token wins over a longer one": train(
            [t for s in split_at(sorted(special_tokens, key=len)) for t in find(s)]
        ),
        "the special token that is listed first wins, not the longest": train(
            [t for s in split_at(special_tokens) for t in find(s)]
        ),
        "special tokens are found whatever their case: it counts": train(
            [t for s in without_specials_of_any_case(decoded, special_tokens) for t in find(s)]
        ),
        "the longest wins wherever it begins: the first in the text does, and of those that begin"
        " there the longest": train(
            [
                t
                for s in split_by_length(decoded, special_tokens)
                if s not in special_tokens
                for t in find(s)
            ]
        ),
        "only the first special token is a boundary": train(
            [t for s in split_at(special_tokens[:1]) for t in find(s)]
        ),
        "special tokens are not escaped in the regular expression": train(
            [t for s in without_unescaped(decoded, special_tokens) for t in find(s)]
        ),
        "only ASCII letters and digits are known: use the regex module and \\p{L}, \\p{N}": train(
            [t for s in segments for t in ASCII.findall(s)]
        ),
        "letters and digits are those of re: use the regex module and \\p{L}, \\p{N}": train(
            [t for s in segments for t in OF_RE.findall(s)]
        ),
        "contractions are split off in capitals, too: the pattern is case-sensitive": train(
            [t for s in segments for t in ANY_CASE.findall(s)]
        ),
        "a curly apostrophe begins a contraction: only the straight one does": train(
            [t for s in segments for t in CURLY.findall(s)]
        ),
        "merges are replaced in the text of all tokens, where a pair also fits the end of one token"
        " and the start of the next": tuple(
            recounted(text, vocab_size, special_tokens, merge=merge)
            for merge in (replaced, replaced_beside_it)
        ),
        r"the pattern lacks \s+(?!\S): the last of several spaces belongs to the next"
        " pre-token": train([t for s in segments for t in NO_LOOKAHEAD.findall(s)]),
        "the text is split by GPT-4's pattern, not by GPT-2's": train(
            [t for s in segments for t in GPT4.findall(s)]
        ),
        "pre-tokens lose their leading space": train(
            [t.lstrip(" ") or t for s in segments for t in find(s)]
        ),
        **{
            f"the text is split into {count} chunks, some inside pre-tokens or specials": train(
                in_chunks(count)
            )
            for count in (2, 3, 4, 8)
        },
        "overlapping occurrences (aaa) are counted once": recounted(
            text, vocab_size, special_tokens, overlap=False
        ),
        "the counts of neighbouring pairs are not lowered after a merge": recounted(
            text, vocab_size, special_tokens, stale=True
        ),
    }
    if "ties_lesser" not in CHOSEN:
        return answers
    words = {"smaller": "greater", "greater": "smaller"}
    return {
        " ".join(words.get(word, word) for word in what.split(" ")): merges
        for what, merges in answers.items()
    }


def without_specials(text: str, specials: Sequence[str]) -> list[str]:
    """The segments of a text between its special tokens."""
    return [s for s in oracles.split_at_specials(text, specials) if s not in specials]


def without_specials_of_any_case(text: str, specials: Sequence[str]) -> list[str]:
    longest_first = sorted(specials, key=len, reverse=True)
    found = {special.lower() for special in specials}
    segments = split_at_first(text, longest_first, oracles.regex.IGNORECASE)
    return [segment for segment in segments if segment.lower() not in found]


def without_unescaped(text: str, specials: Sequence[str]) -> list[str]:
    try:
        return oracles.regex.split("|".join(specials), text) if specials else [text]
    except oracles.regex.error:
        return []


def by_ids(
    text: bytes, vocab_size: int, special_tokens: Sequence[str], order: Callable[[Any], Any]
) -> list[Merge]:
    """Break ties by the ids of the tokens, special tokens after the bytes, in some order."""
    first = oracles.size_without_merges(special_tokens)
    ids = {bytes([byte]): byte for byte in range(256)}

    def rank(pair: Merge, count: int) -> Any:
        return count, tied(order((ids[pair[0]], ids[pair[1]])))

    merges: list[Merge] = []
    splits = [
        (oracles.as_bytes(pretoken), n)
        for pretoken, n in oracles.pretokens(text, special_tokens).items()
    ]
    while len(merges) < vocab_size - first:
        counts = pair_counts(splits)
        if not counts:
            break
        best = max(counts, key=lambda pair: rank(pair, counts[pair]))
        ids.setdefault(best[0] + best[1], first + len(merges))
        merges.append(best)
        splits = [(oracles.merged(tokens, best), n) for tokens, n in splits]
    return merges


def merged_from_the_right(tokens: Sequence[bytes], pair: Merge) -> list[bytes]:
    result: list[bytes] = []
    index = len(tokens)
    while index > 0:
        size = 2 if tuple(tokens[max(index - 2, 0) : index]) == pair else 1
        result.insert(0, b"".join(tokens[index - size : index]))
        index -= size
    return result


def merged_once(tokens: Sequence[bytes], pair: Merge) -> list[bytes]:
    pairs = oracles.pairs_of(tokens)
    if pair not in pairs:
        return list(tokens)
    index = pairs.index(pair)
    return [*tokens[:index], pair[0] + pair[1], *tokens[index + 2 :]]


def replaced(tokens: Sequence[bytes], pair: Merge) -> list[bytes]:
    """Join a pair by str.replace: also where a longer token ends or begins like it."""
    left, right = pair[0].hex(), pair[1].hex()
    spelled = " ".join(token.hex() for token in tokens).replace(f"{left} {right}", left + right)
    return [bytes.fromhex(token) for token in spelled.split()]


def replaced_beside_it(tokens: Sequence[bytes], pair: Merge) -> list[bytes]:
    """The same in pre-tokens that have the pair, as an index of them finds."""
    return replaced(tokens, pair) if pair in pairwise(tokens) else list(tokens)


def again(segment: str, errors: str) -> str:
    return segment.encode("utf-8", "surrogateescape").decode("utf-8", errors)


Splits = Sequence[tuple[list[bytes], int]]


def pair_counts(splits: Splits, overlap: bool = True, once: bool = False) -> Counter[Merge]:
    counts: Counter[Merge] = Counter()
    for tokens, count in splits:
        pairs = oracles.pairs_of(tokens)
        last = None
        for pair in dict.fromkeys(pairs) if once else pairs:
            if not overlap and pair == last and pair[0] == pair[1]:
                last = None
                continue
            counts[pair] += count
            last = pair
    return counts


def recounted(
    text: bytes,
    vocab_size: int,
    special_tokens: Sequence[str],
    overlap: bool = True,
    once: bool = False,
    stale: bool = False,
    fewest: int = 1,
    merge: Callable[[Sequence[bytes], Merge], list[bytes]] = oracles.merged,
) -> list[Merge]:
    """Train with one thing wrong.

    Args:
        text: What to learn from.
        vocab_size: As for the adapter.
        special_tokens: As for the adapter.
        overlap: Whether both pairs of (a, a, a) count.
        once: Whether a pair counts once in a pre-token that holds it several times.
        stale: Whether counts are never lowered.
        fewest: Stop when no pair occurs this often.
        merge: Joins a pair in a pre-token.
    """
    occurrences = oracles.pretokens(text, special_tokens)
    splits = [(oracles.as_bytes(pretoken), count) for pretoken, count in occurrences.items()]
    merges: list[Merge] = []
    known: Counter[Merge] = Counter()
    rank = oracles.most_frequent
    while len(merges) < vocab_size - oracles.size_without_merges(special_tokens):
        counts = pair_counts(splits, overlap, once)
        if stale:
            for pair, count in counts.items():
                known[pair] = max(known[pair], count)
            for pair in merges:
                known.pop(pair, None)
            counts = known
        if not counts or max(counts.values()) < fewest:
            break
        best = max(counts, key=lambda pair: rank(pair, counts[pair]))
        merges.append(best)
        splits = [(merge(tokens, best), count) for tokens, count in splits]
    return merges
