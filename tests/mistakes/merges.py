"""Mistakes in training byte-pair encoding: lists of merges, no arrays."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from contract import current
from oracles import text as oracles
from oracles.text import Merge, Reversed

from mistakes.encoding import ANY_CASE, ASCII, GPT4, NO_LOOKAHEAD, split_at_first
from mistakes.other_contracts import with_other_contracts


@with_other_contracts("train_bpe", oracles.train_bpe)
def bpe_merges(
    text: bytes, vocab_size: int, special_tokens: Sequence[str]
) -> dict[str, list[Merge]]:
    decoded = text.decode("utf-8", "surrogateescape")
    pieces = without_specials(decoded, special_tokens)

    def cut_at(specials: Sequence[str]) -> list[str]:
        """Split with the first alternative that fits, then drop what was found."""
        return [p for p in split_at_first(decoded, specials) if p not in specials]

    def in_parts(count: int) -> list[str]:
        size = max(len(decoded) // count, 1)
        cuts = [*range(0, size * count, size), len(decoded)]
        parts = [decoded[start:end] for start, end in pairwise(cuts)]
        found = [p for part in parts for p in without_specials(part, special_tokens)]
        return [word for p in found for word in find(p)]

    find = oracles.PRETOKEN.findall

    def train(words: Sequence[str] | None = None, **options: Any) -> list[Merge]:
        counted = None if words is None else Counter(words)
        return oracles.train_bpe(text, vocab_size, special_tokens, words=counted, **options)

    right = train()
    return {
        "ties go to the smaller pair: the lexicographically greater one wins": train(
            rank=lambda pair, count: (count, Reversed(pair))
        ),
        "ties go to the pair that was seen first": train(rank=lambda _, count: count),
        "ties are broken by the joined bytes, not by the pair": train(
            rank=lambda pair, count: (count, pair[0] + pair[1])
        ),
        "ties are broken by the decoded text, not by the bytes": train(
            rank=lambda pair, count: (count, tuple(p.decode("utf-8", "replace") for p in pair))
        ),
        "special tokens are counted as ordinary text": train(find(decoded)),
        "special tokens are cut out and the text around them is joined: they are boundaries": train(
            find("".join(pieces))
        ),
        "the text is split at white space only, not by GPT-2's pattern": train(
            [word for piece in pieces for word in oracles.regex.findall(r"\S+|\s+", piece)]
        ),
        "the text is not split into pre-tokens": train(pieces),
        "line ends are translated when the file is read: \\r\\n must stay": train(
            [w for p in pieces for w in find(p.replace("\r\n", "\n").replace("\r", "\n"))]
        ),
        "invalid bytes are replaced by U+FFFD: keep every byte": train(
            [w for p in pieces for w in find(again(p, "replace"))]
        ),
        "invalid bytes are dropped: keep every byte": train(
            [w for p in pieces for w in find(again(p, "ignore"))]
        ),
        "each kind of word is counted once, however often it occurs": train(
            sorted({word for piece in pieces for word in find(piece)})
        ),
        "the byte order mark at the start is dropped: keep every byte": oracles.train_bpe(
            text.removeprefix(b"\xef\xbb\xbf"), vocab_size, special_tokens
        ),
        "merging goes on past vocab_size: special tokens count too": oracles.train_bpe(
            text, vocab_size + len(special_tokens), special_tokens
        ),
        "training stops one merge early": right[: vocab_size - 256 - len(special_tokens) - 1],
        "special tokens are counted twice in vocab_size": oracles.train_bpe(
            text, vocab_size - len(special_tokens), special_tokens
        ),
        "pairs that occur only once are not merged: training goes on until vocab_size": recounted(
            text, vocab_size, special_tokens, fewest=2
        ),
        f"ties go to the longer pair: the lexicographically {current().bpe_ties} one wins": train(
            rank=lambda pair, count: (count, len(pair[0] + pair[1]), pair)
        ),
        f"ties go to the shorter pair: the lexicographically {current().bpe_ties} one wins": train(
            rank=lambda pair, count: (count, -len(pair[0] + pair[1]), pair)
        ),
        "ties go to the pair with the greater ids: compare the bytes": by_ids(
            text, vocab_size, special_tokens
        ),
        "repeated pairs are merged from the right": recounted(
            text, vocab_size, special_tokens, merge=merged_from_the_right
        ),
        "only the first place of a word is merged": recounted(
            text, vocab_size, special_tokens, merge=merged_once
        ),
        "each pair counts once in a word, however often it is there": recounted(
            text, vocab_size, special_tokens, once=True
        ),
        "the text is lowered": train([w for p in pieces for w in find(p.lower())]),
        "the text is lowered, and special tokens in it with it": train(
            [w for p in without_specials(decoded.lower(), special_tokens) for w in find(p)]
        ),
        "the text is normalised (NFC): learn from it as it is": train(
            [w for p in pieces for w in find(unicodedata.normalize("NFC", p))]
        ),
        "white space at the ends of a piece of text is dropped": train(
            [w for p in pieces for w in find(p.strip())]
        ),
        "the text is read line by line: white space may cross a line end": train(
            [w for p in pieces for line in p.splitlines(keepends=True) for w in find(line)]
        ),
        "the text is split at \\n: white space may cross a line end": train(
            [w for p in pieces for line in p.split("\n") for w in find(line)]
        ),
        "a shorter special token wins over a longer one": train(
            [w for p in cut_at(sorted(special_tokens, key=len)) for w in find(p)]
        ),
        "the special token that is listed first wins, not the longest": train(
            [w for p in cut_at(special_tokens) for w in find(p)]
        ),
        "only the first special token is a boundary": train(
            [w for p in cut_at(special_tokens[:1]) for w in find(p)]
        ),
        "special tokens are not escaped in the regular expression": train(
            [w for p in without_unescaped(decoded, special_tokens) for w in find(p)]
        ),
        "only ASCII letters and digits are known: use the regex module and \\p{L}, \\p{N}": train(
            [w for p in pieces for w in ASCII.findall(p)]
        ),
        "contractions are split off in capitals, too: the pattern is case-sensitive": train(
            [w for p in pieces for w in ANY_CASE.findall(p)]
        ),
        r"the pattern lacks \s+(?!\S): the last of several spaces belongs to the next word": train(
            [w for p in pieces for w in NO_LOOKAHEAD.findall(p)]
        ),
        "the text is split by GPT-4's pattern, not by GPT-2's": train(
            [w for p in pieces for w in GPT4.findall(p)]
        ),
        "words lose the space before them": train(
            [w.lstrip(" ") or w for p in pieces for w in find(p)]
        ),
        **{
            f"the text is cut into {count} parts without regard to what lies at the cut": train(
                in_parts(count)
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


def without_specials(text: str, specials: Sequence[str]) -> list[str]:
    """The pieces of a text between its special tokens."""
    return [p for p in oracles.split_at_specials(text, specials) if p not in specials]


def without_unescaped(text: str, specials: Sequence[str]) -> list[str]:
    try:
        return oracles.regex.split("|".join(specials), text) if specials else [text]
    except oracles.regex.error:
        return []


def by_ids(text: bytes, vocab_size: int, special_tokens: Sequence[str]) -> list[Merge]:
    """Break ties by the ids of the tokens, special tokens after the bytes."""
    first = 256 + len(special_tokens)
    ids = {bytes([byte]): byte for byte in range(256)}

    def rank(pair: Merge, count: int) -> Any:
        return count, ids[pair[0]], ids[pair[1]]

    merges: list[Merge] = []
    pieces = [
        (oracles.as_bytes(word), n) for word, n in oracles.pretokens(text, special_tokens).items()
    ]
    while len(merges) < vocab_size - first:
        counts = pair_counts(pieces)
        if not counts:
            break
        best = max(counts, key=lambda pair: rank(pair, counts[pair]))
        ids.setdefault(best[0] + best[1], first + len(merges))
        merges.append(best)
        pieces = [(oracles.merged(word, best), n) for word, n in pieces]
    return merges


def merged_from_the_right(word: Sequence[bytes], pair: Merge) -> list[bytes]:
    result: list[bytes] = []
    place = len(word)
    while place > 0:
        size = 2 if tuple(word[max(place - 2, 0) : place]) == pair else 1
        result.insert(0, b"".join(word[place - size : place]))
        place -= size
    return result


def merged_once(word: Sequence[bytes], pair: Merge) -> list[bytes]:
    pairs = oracles.pairs_of(word)
    if pair not in pairs:
        return list(word)
    place = pairs.index(pair)
    return [*word[:place], pair[0] + pair[1], *word[place + 2 :]]


def again(piece: str, errors: str) -> str:
    return piece.encode("utf-8", "surrogateescape").decode("utf-8", errors)


Words = Sequence[tuple[list[bytes], int]]


def pair_counts(pieces: Words, overlap: bool = True, once: bool = False) -> Counter[Merge]:
    counts: Counter[Merge] = Counter()
    for word, count in pieces:
        pairs = oracles.pairs_of(word)
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
        vocab_size: As of the adapter.
        special_tokens: As of the adapter.
        overlap: Whether both pairs of (a, a, a) count.
        once: Whether a pair counts once in a word that holds it several times.
        stale: Whether counts are never lowered.
        fewest: Stop when no pair occurs this often.
        merge: Joins a pair in a word.
    """
    words = oracles.pretokens(text, special_tokens)
    pieces = [(oracles.as_bytes(word), count) for word, count in words.items()]
    merges: list[Merge] = []
    known: Counter[Merge] = Counter()
    rank = oracles.usual_rank()
    while len(merges) < vocab_size - 256 - len(special_tokens):
        counts = pair_counts(pieces, overlap, once)
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
        pieces = [(merge(word, best), count) for word, count in pieces]
    return merges
