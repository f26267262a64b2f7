"""Turn text into token ids and back with a trained byte-pair encoding."""

import heapq
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

import regex

from cs_basics.bpe import Merge
from cs_basics.pretokenize import PRETOKEN

_LONG = 1 << 10
_REMEMBERED = 1 << 15


class Tokenizer:
    def __init__(
        self,
        vocab: Mapping[int, bytes],
        merges: Iterable[Merge],
        special_tokens: Sequence[str] | None = None,
    ) -> None:
        self.vocab: dict[int, bytes] = dict(vocab)
        self.merges: list[Merge] = [(left, right) for left, right in merges]
        self.special_tokens: list[str] = _checked_specials(special_tokens)
        self._number_of: dict[bytes, int] = {}
        for number, token in self.vocab.items():
            if not isinstance(number, int) or not isinstance(token, bytes):
                raise TypeError(f"vocab must map int to bytes: {number!r} -> {token!r}")
            if number < 0:
                raise ValueError(f"id {number} is negative")
            self._number_of.setdefault(token, number)
        self._turn_of: dict[Merge, int] = {}
        for turn, (left, right) in enumerate(self.merges):
            missing = [t for t in (left, right, left + right) if t not in self._number_of]
            if missing:
                raise ValueError(f"merge {turn} needs {missing[0]!r}, which the vocabulary lacks")
            self._turn_of.setdefault((left, right), turn)
        for special in self.special_tokens:
            token = _to_bytes(special)
            if token not in self._number_of:
                self._number_of[token] = number = self.vocab_size
                self.vocab[number] = token
        by_length = sorted(self.special_tokens, key=len, reverse=True)
        self._wall = regex.compile("|".join(map(regex.escape, by_length))) if by_length else None
        self._longest_wall = len(by_length[0]) if by_length else 0
        self._remembered: dict[str, list[int]] = {}

    @property
    def vocab_size(self) -> int:
        return max(self.vocab, default=-1) + 1

    def encode(self, text: str) -> list[int]:
        return list(self._ids(text))

    def encode_iterable(self, chunks: Iterable[str]) -> Iterator[int]:
        held, enough = "", 0
        for chunk in chunks:
            if not isinstance(chunk, str):
                raise TypeError(f"a chunk must be a str, not {type(chunk).__name__}")
            held += chunk
            if len(held) < enough:
                continue
            done = yield from self._certain_ids(held)
            held = held[done:]
            # What is long and undecided is not looked at again for each new character.
            enough = len(held) * 5 // 4 if len(held) > _LONG else 0
        yield from self._ids(held)

    def _ids(self, text: str) -> Iterator[int]:
        """Yield the ids of a text that ends where it ends."""
        begin = 0
        for wall in self._wall.finditer(text) if self._wall else ():
            yield from self._plain_ids(text, begin, wall.start())
            yield self._number_of[_to_bytes(wall.group())]
            begin = wall.end()
        yield from self._plain_ids(text, begin, len(text))

    def _plain_ids(self, text: str, begin: int, end: int) -> Iterator[int]:
        for word in PRETOKEN.finditer(text[begin:end]):
            yield from self._word_ids(word.group())

    def _certain_ids(self, text: str) -> Generator[int, None, int]:
        """Yield the ids that stay whatever follows the text; return how much of it they are."""
        begin = 0
        opened = self._open_walls(text)
        while True:
            wall = self._wall.search(text, begin) if self._wall else None
            open_from = next((at for at in opened if at >= begin), len(text))
            if wall is None or wall.start() >= open_from:
                break
            yield from self._plain_ids(text, begin, wall.start())
            yield self._number_of[_to_bytes(wall.group())]
            begin = wall.end()
        for word in PRETOKEN.finditer(text[begin:open_from]):
            # The last word may go on; and "'l" may become "'ll", the longest that looks ahead.
            first, last = begin + word.start(), begin + word.end()
            if last == open_from or first + 3 > open_from:
                return first
            yield from self._word_ids(word.group())
        return open_from

    def _open_walls(self, text: str) -> list[int]:
        """Return where a special token may have begun whose end is still to come."""
        last = range(max(0, len(text) - self._longest_wall + 1), len(text))
        return [
            at
            for at in last
            if any(len(s) > len(text) - at and s.startswith(text[at:]) for s in self.special_tokens)
        ]

    def _word_ids(self, word: str) -> list[int]:
        known = self._remembered.get(word)
        if known is None:
            known = [self._number(token) for token in self._merged(_to_bytes(word))]
            if len(word) <= _LONG:
                if len(self._remembered) >= _REMEMBERED:
                    self._remembered.clear()
                self._remembered[word] = known
        return known

    def _number(self, token: bytes) -> int:
        try:
            return self._number_of[token]
        except KeyError:
            raise ValueError(f"the vocabulary has no token for {token!r}") from None

    def _merged(self, word: bytes) -> Iterable[bytes]:
        """Apply the merges in their order, each everywhere from left to right.

        `at` holds for each merge the places where its left part stands (or stood: it is looked
        up again when the turn comes), `turns` is the queue of the merges.
        """
        size = len(word)
        tokens = [word[i : i + 1] for i in range(size)]  # b"": swallowed by one to the left
        after = list(range(1, size + 1))
        before = list(range(-1, size - 1))
        at: dict[int, list[int]] = {}
        turns: list[int] = []

        def offer(i: int) -> None:
            has_next = i >= 0 and after[i] < size
            turn = self._turn_of.get((tokens[i], tokens[after[i]])) if has_next else None
            if turn is not None:
                if turn not in at:
                    at[turn] = []
                    heapq.heappush(turns, turn)
                at[turn].append(i)

        for i in range(size):
            offer(i)
        while turns:
            turn = heapq.heappop(turns)
            pair = self.merges[turn]
            changed = []
            for i in sorted(at.pop(turn)):
                j = after[i]
                if j < size and (tokens[i], tokens[j]) == pair:
                    tokens[i], tokens[j], after[i] = tokens[i] + tokens[j], b"", after[j]
                    if after[i] < size:
                        before[after[i]] = i
                    changed.append(i)
            for i in changed:
                offer(before[i])
                offer(i)
        return filter(None, tokens)

    def decode(self, ids: Iterable[int]) -> str:
        parts = []
        for number in ids:
            token = self.vocab.get(number)
            if token is None:
                raise ValueError(f"id {number} is not in the vocabulary")
            parts.append(token)
        return b"".join(parts).decode("utf-8", "replace")


def _checked_specials(special_tokens: Sequence[str] | None) -> list[str]:
    specials = [] if special_tokens is None else special_tokens
    if isinstance(specials, str) or not all(isinstance(s, str) for s in specials):
        raise TypeError(f"special_tokens must be a list of str: {special_tokens!r}")
    if "" in specials or len(set(specials)) < len(specials):
        raise ValueError(f"a special token is empty or repeated: {special_tokens}")
    return list(specials)


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
