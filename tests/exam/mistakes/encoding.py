"""Mistakes in encoding text: lists of ids, no arrays."""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oracles import text as oracles
from oracles.text import Merge

CURLY = oracles.regex.compile(oracles.PRETOKEN.pattern.replace("'", "['\u2019]", 1))
GPT4 = oracles.regex.compile(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)| ?\p{L}+| ?\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
)
ANY_CASE = oracles.regex.compile(oracles.PRETOKEN.pattern, oracles.regex.IGNORECASE)
NO_LOOKAHEAD = oracles.regex.compile(oracles.PRETOKEN.pattern.replace(r"|\s+(?!\S)", ""))
OF_RE = re.compile(r"'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")
ASCII = oracles.regex.compile(
    r"'(?:[sdmt]|ll|ve|re)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+"
)


def encoding(text: str, tokenizer: Mapping[str, Any]) -> dict[str, Any]:
    specials = tokenizer["special_tokens"] or []
    token_ids = oracles.ids_of(tokenizer["vocab"], specials)
    by_length = oracles.split_at_specials(text, specials)
    wrong = Merging(tokenizer["merges"], token_ids)
    in_order = Merging(sorted(tokenizer["merges"]), token_ids)
    all_but_last = Merging(tokenizer["merges"][:-1], token_ids)
    right = oracles.encode(text, tokenizer)
    places = {token: place for place, token in enumerate(token_ids)}

    def merge_all(pretoken: str) -> list[bytes]:
        return oracles.merged_by_rank(pretoken, wrong.ranks)

    def changed(change: Callable[[str], str]) -> list[int]:
        return encode(oracles.split_at_specials(change(text), specials))

    def encode(
        segments: Sequence[str],
        split: Callable[[str], list[str]] = oracles.PRETOKEN.findall,
        tokens_of: Callable[[str], list[bytes]] = merge_all,
    ) -> list[int]:
        tokens: list[bytes] = []
        for segment in segments:
            if segment in specials and segments is not whole:
                tokens.append(segment.encode())
            else:
                tokens += [token for pretoken in split(segment) for token in tokens_of(pretoken)]
        return [token_ids.get(token, -1) for token in tokens]

    whole = [text]
    return {
        "the longest token in the vocabulary is taken from the left, instead of merging in"
        " the order of the merges": encode(by_length, tokens_of=wrong.longest_token),
        "the merges are applied to the whole text, without splitting it into pre-tokens": encode(
            by_length, split=lambda segment: [segment]
        ),
        "the text is split at white space only, not by GPT-2's pattern": encode(
            by_length, split=lambda segment: oracles.regex.findall(r"\S+|\s+", segment)
        ),
        "a pre-token that is a token is looked up first, without its merges": encode(
            by_length, tokens_of=wrong.looked_up
        ),
        "special tokens are encoded as ordinary text": encode(whole),
        "a shorter special token wins over a longer one": encode(
            split_at_first(text, sorted(specials, key=len))
        ),
        "the longest wins wherever it begins: the first in the text does, and of those that begin"
        " there the longest": encode(split_by_length(text, specials)),
        "the special token that is listed first wins, not the longest": encode(
            split_at_first(text, specials)
        ),
        "the merges are not applied": encode(by_length, tokens_of=oracles.as_bytes),
        "the leftmost pair is merged first: the earliest merge in the list goes first": encode(
            by_length, tokens_of=wrong.leftmost
        ),
        "repeated pairs are merged from the right": encode(
            by_length, tokens_of=wrong.from_the_right
        ),
        "a merge is applied to the first place only": encode(
            by_length, tokens_of=wrong.first_place_only
        ),
        "any pair whose bytes make a token is merged, by the token's id: look the pair up in the"
        " list of merges": encode(by_length, tokens_of=wrong.by_token_id),
        "the text is split by GPT-4's pattern, not by GPT-2's": encode(
            by_length, split=GPT4.findall
        ),
        "only ASCII letters and digits are known: use the regex module and \\p{L}, \\p{N}": encode(
            by_length, split=ASCII.findall
        ),
        "letters and digits are those of re: use the regex module and \\p{L}, \\p{N}": encode(
            by_length, split=OF_RE.findall
        ),
        "contractions are split off in capitals, too: the pattern is case-sensitive": encode(
            by_length, split=ANY_CASE.findall
        ),
        "a curly apostrophe begins a contraction: only the straight one does": encode(
            by_length, split=CURLY.findall
        ),
        "numbers are encoded digit by digit: a merge may join digits": encode(
            by_length,
            split=lambda segment: [
                part
                for pretoken in oracles.PRETOKEN.findall(segment)
                for part in oracles.regex.findall(r"[0-9]|[^0-9]+", pretoken)
            ],
        ),
        "the last merge is not known": encode(by_length, tokens_of=all_but_last.by_rank),
        "ids are numbered anew in the order of the vocabulary: use its own": [
            places[tokenizer["vocab"][token_id]] for token_id in right
        ]
        if set(right) <= set(tokenizer["vocab"])
        else None,
        "<|endoftext|> is special though it is not given": oracles.encode(
            text, {**tokenizer, "special_tokens": [*specials, "<|endoftext|>"]}
        ),
        "tabs become spaces": changed(lambda given: given.replace("\t", " ")),
        r"the pattern lacks \s+(?!\S): the last of several spaces belongs to the next"
        " pre-token": encode(by_length, split=NO_LOOKAHEAD.findall),
        "the merges are sorted: their order is the order of their creation": (
            encode(by_length, tokens_of=in_order.each_merge_once),
            encode(by_length, tokens_of=in_order.by_rank),
        ),
        "pre-tokens lose their leading space": encode(
            by_length, split=lambda segment: oracles.regex.findall(r"\w+|[^\w\s]+|\s+", segment)
        ),
        "special tokens are not escaped in the regular expression": encode(
            split_unescaped(text, specials)
        ),
        "special tokens with spaces are cut: look for special tokens before anything is split": (
            encode(oracles.split_at_specials(text, [s for s in specials if " " not in s]))
        ),
        "special tokens are left out": encode([p for p in by_length if p not in specials]),
        "white space at the ends is dropped": changed(str.strip),
        "the text is normalised (NFC): encode it as it is": changed(
            lambda given: unicodedata.normalize("NFC", given)
        ),
        "the text is normalised (NFKC): encode it as it is": changed(
            lambda given: unicodedata.normalize("NFKC", given)
        ),
        "line ends are translated: \\r\\n must stay": changed(
            lambda given: given.replace("\r\n", "\n").replace("\r", "\n")
        ),
        "\\r\\n becomes \\n": changed(lambda given: given.replace("\r\n", "\n")),
        "the text is lowered": encode([p if p in specials else p.lower() for p in by_length]),
        "the text is encoded line by line: white space may cross a line end": changed_lines(
            text, encode, specials
        ),
    }


def changed_lines(
    text: str, encode: Callable[[Sequence[str]], list[int]], specials: Sequence[str]
) -> list[int]:
    lines = text.splitlines(keepends=True)
    return [token for line in lines for token in encode(oracles.split_at_specials(line, specials))]


def split_unescaped(text: str, specials: Sequence[str]) -> list[str]:
    """What a pattern of the bare special tokens finds; nothing where it is no pattern at all."""
    try:
        found = oracles.regex.split(f"({'|'.join(specials)})", text) if specials else [text]
    except oracles.regex.error:
        return []
    return [segment for segment in found if segment]


def split_by_length(text: str, specials: Sequence[str]) -> list[str]:
    """Split by the longest special token first, then what is left by the others."""
    segments = [text]
    for special in sorted(specials, key=len, reverse=True):
        segments = [
            part
            for segment in segments
            for part in ([segment] if segment in specials else split_at_first(segment, [special]))
        ]
    return segments


def split_at_first(text: str, specials: Sequence[str], flags: int = 0) -> list[str]:
    if not specials:
        return [text]
    pattern = "|".join(oracles.regex.escape(special) for special in specials)
    return [part for part in oracles.regex.split(f"({pattern})", text, flags=flags) if part]


def encoding_in_chunks(chunks: Sequence[str], tokenizer: Mapping[str, Any]) -> dict[str, list[int]]:
    def one_by_one(parts: Sequence[str]) -> list[int]:
        return [token for part in parts for token in oracles.encode(part, tokenizer)]

    def released_at(end: str) -> list[str]:
        """What has been read up to the last `end`, after each chunk."""
        released, kept = [], ""
        for chunk in chunks:
            before, found, kept = (kept + chunk).rpartition(end)
            released.append(before + found)
        return [*released, kept]

    return {
        "each chunk is encoded on its own: tokens may cross from one chunk into the next": (
            one_by_one(chunks)
        ),
        "the text is encoded line by line: tokens may cross a line end": one_by_one(
            "".join(chunks).splitlines(keepends=True)
        ),
        "text is encoded up to the last line end of a chunk: white space may go on after it": (
            one_by_one(released_at("\n"))
        ),
        "text is encoded up to the last space of a chunk: a space belongs to the next pre-token": (
            one_by_one(released_at(" "))
        ),
        "a line end is put between chunks": one_by_one(["\n".join(chunks)]),
    }


class Merging:
    """Ways to merge the bytes of a pre-token, most of them wrong; each returns its tokens."""

    def __init__(self, merges: Sequence[Merge], token_ids: Mapping[bytes, int]) -> None:
        self.merges = merges
        self.ranks = {merge: rank for rank, merge in enumerate(merges)}
        self.token_ids = token_ids

    def known_pairs(self, tokens: list[bytes]) -> list[tuple[int, int]]:
        pairs = enumerate(oracles.pairs_of(tokens))
        return [(self.ranks[pair], index) for index, pair in pairs if pair in self.ranks]

    def by_rank(self, pretoken: str) -> list[bytes]:
        return oracles.merged_by_rank(pretoken, self.ranks)

    def each_merge_once(self, pretoken: str) -> list[bytes]:
        tokens = oracles.as_bytes(pretoken)
        for merge in self.merges:
            tokens = oracles.merged(tokens, merge)
        return tokens

    def leftmost(self, pretoken: str) -> list[bytes]:
        def step(tokens: list[bytes]) -> int | None:
            return min((index for _, index in self.known_pairs(tokens)), default=None)

        return joined_at(step, pretoken)

    def from_the_right(self, pretoken: str) -> list[bytes]:
        def step(tokens: list[bytes]) -> int | None:
            pairs = self.known_pairs(tokens)
            return max((index for rank, index in pairs if rank == min(pairs)[0]), default=None)

        return joined_at(step, pretoken)

    def by_token_id(self, pretoken: str) -> list[bytes]:
        def step(tokens: list[bytes]) -> int | None:
            joined = enumerate(left + right for left, right in oracles.pairs_of(tokens))
            known = [(self.token_ids[token], i) for i, token in joined if token in self.token_ids]
            return min(known, default=(0, None))[1]

        return joined_at(step, pretoken)

    def looked_up(self, pretoken: str) -> list[bytes]:
        whole = pretoken.encode()
        return [whole] if whole in self.token_ids else self.by_rank(pretoken)

    def first_place_only(self, pretoken: str) -> list[bytes]:
        tokens = oracles.as_bytes(pretoken)
        for merge in self.merges:
            pairs = oracles.pairs_of(tokens)
            if merge in pairs:
                index = pairs.index(merge)
                tokens[index : index + 2] = [merge[0] + merge[1]]
        return tokens

    def longest_token(self, pretoken: str) -> list[bytes]:
        rest, tokens = pretoken.encode(), []
        while rest:
            size = next(size for size in range(len(rest), 0, -1) if rest[:size] in self.token_ids)
            tokens.append(rest[:size])
            rest = rest[size:]
        return tokens


def joined_at(step: Callable[[list[bytes]], int | None], pretoken: str) -> list[bytes]:
    """Join two tokens at the index that `step` returns until it returns none."""
    tokens = oracles.as_bytes(pretoken)
    while (index := step(tokens)) is not None:
        tokens[index : index + 2] = [tokens[index] + tokens[index + 1]]
    return tokens
