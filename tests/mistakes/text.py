"""Mistakes in encoding and in training byte-pair encoding: lists and bytes, no arrays."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oracles import text as oracles
from oracles.text import Merge


def encoding(text: str, tokenizer: Mapping[str, Any]) -> dict[str, list[int]]:
    specials = tokenizer["special_tokens"] or []
    token_ids = oracles.ids_of(tokenizer["vocab"], specials)
    by_length = oracles.split_at_specials(text, specials)

    def merge_all(word: str) -> list[bytes]:
        parts = oracles.as_bytes(word)
        for merge in tokenizer["merges"]:
            parts = oracles.merged(parts, merge)
        return parts

    def encode(
        pieces: Sequence[str],
        split: Callable[[str], list[str]] = oracles.PRETOKEN.findall,
        tokens_of: Callable[[str], list[bytes]] = merge_all,
    ) -> list[int]:
        tokens: list[bytes] = []
        for piece in pieces:
            if piece in specials and pieces is not whole:
                tokens.append(piece.encode())
            else:
                tokens += [token for word in split(piece) for token in tokens_of(word)]
        return [token_ids[token] for token in tokens]

    whole = [text]
    return {
        "the longest token in the vocabulary is taken from the left, instead of merging in"
        " the order of the merges": encode(
            by_length, tokens_of=lambda word: longest_tokens(word, token_ids)
        ),
        "the merges are applied to the whole text, without splitting it into pre-tokens": encode(
            by_length, split=lambda piece: [piece]
        ),
        "the text is split at white space only, not by GPT-2's pattern": encode(
            by_length, split=lambda piece: oracles.regex.findall(r"\S+|\s+", piece)
        ),
        "special tokens are encoded as ordinary text": encode(whole),
        "a shorter special token wins over a longer one": encode(
            split_at_first(text, sorted(specials, key=len))
        ),
        "the special token that is listed first wins, not the longest": encode(
            split_at_first(text, specials)
        ),
        "the merges are not applied": encode(by_length, tokens_of=oracles.as_bytes),
    }


def longest_tokens(word: str, token_ids: Mapping[bytes, int]) -> list[bytes]:
    rest, tokens = word.encode(), []
    while rest:
        size = next(size for size in range(len(rest), 0, -1) if rest[:size] in token_ids)
        tokens.append(rest[:size])
        rest = rest[size:]
    return tokens


def split_at_first(text: str, specials: Sequence[str]) -> list[str]:
    if not specials:
        return [text]
    pattern = "|".join(oracles.regex.escape(special) for special in specials)
    return [piece for piece in oracles.regex.split(f"({pattern})", text) if piece]


def encoding_in_chunks(chunks: Sequence[str], tokenizer: Mapping[str, Any]) -> dict[str, list[int]]:
    def one_by_one(pieces: Sequence[str]) -> list[int]:
        return [token for piece in pieces for token in oracles.encode(piece, tokenizer)]

    return {
        "each chunk is encoded on its own: tokens may cross from one chunk into the next": (
            one_by_one(chunks)
        ),
        "the text is encoded line by line: tokens may cross a line end": one_by_one(
            "".join(chunks).splitlines(keepends=True)
        ),
    }


def bpe_merges(
    text: bytes, vocab_size: int, special_tokens: Sequence[str]
) -> dict[str, list[Merge]]:
    decoded = text.decode("utf-8", "surrogateescape")
    pieces = [
        piece
        for piece in oracles.split_at_specials(decoded, special_tokens)
        if piece not in special_tokens
    ]

    def train(words: Sequence[str] | None = None, **options: Any) -> list[Merge]:
        counted = None if words is None else Counter(words)
        return oracles.train_bpe(text, vocab_size, special_tokens, words=counted, **options)

    find = oracles.PRETOKEN.findall
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
        "merging goes on past vocab_size: special tokens count too": oracles.train_bpe(
            text, vocab_size + len(special_tokens), special_tokens
        ),
        "overlapping occurrences (aaa) are counted once": recounted(
            text, vocab_size, special_tokens, overlap=False
        ),
        "the counts of neighbouring pairs are not lowered after a merge": recounted(
            text, vocab_size, special_tokens, stale=True
        ),
    }


def again(piece: str, errors: str) -> str:
    return piece.encode("utf-8", "surrogateescape").decode("utf-8", errors)


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


def recounted(
    text: bytes,
    vocab_size: int,
    special_tokens: Sequence[str],
    overlap: bool = True,
    stale: bool = False,
) -> list[Merge]:
    """Train with pairs counted wrongly: without overlaps, or never less than they once were."""
    words = oracles.pretokens(text, special_tokens)
    pieces = [(oracles.as_bytes(word), count) for word, count in words.items()]
    merges: list[Merge] = []
    known: Counter[Merge] = Counter()
    while len(merges) < vocab_size - 256 - len(special_tokens):
        counts: Counter[Merge] = Counter()
        for word, count in pieces:
            last = None
            for pair in oracles.pairs_of(word):
                if not overlap and pair == last and pair[0] == pair[1]:
                    last = None
                    continue
                counts[pair] += count
                last = pair
        if stale:
            for pair, count in counts.items():
                known[pair] = max(known[pair], count)
            for pair in merges:
                known.pop(pair, None)
            counts = known
        if not counts:
            break
        best = max(counts, key=lambda pair: (counts[pair], pair))
        merges.append(best)
        pieces = [(oracles.merged(word, best), count) for word, count in pieces]
    return merges
