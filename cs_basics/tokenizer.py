"""Turn text into token ids and back with a trained byte-pair encoding.

Last of three files (pretokenize, bpe, tokenizer). Radford et al. 2019 (GPT-2), sec. 2.2.
Tested by `make test ARGS="-k tokenizer"`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from cs_basics.bpe import Merge, Vocab, merge_by_rank
from cs_basics.pretokenize import PRETOKEN, check_special_tokens, special_pattern, text_to_bytes


class Tokenizer:
    """A byte-pair encoding, ready to use.

    >>> tokenizer = Tokenizer({0: b"a", 1: b"b", 2: b"ab"}, [(b"a", b"b")], ["<end>"])
    >>> tokenizer.encode("abba<end>")
    [2, 1, 0, 3]
    >>> tokenizer.decode([2, 3])
    'ab<end>'

    Args:
        vocab: Token ids and their bytes; ids may have any order and gaps. Copied.
        merges: Pairs of tokens in the order in which they were learned. Copied.
        special_tokens: Strings that are always one token. Of those that start at the same place in
            a text the longest wins. Those that the vocabulary lacks get new ids above the highest.

    Raises:
        ValueError: An id is negative, a merge has a part or product that is not in the vocabulary,
            or a special token is empty or repeated.
    """

    def __init__(
        self,
        vocab: Mapping[int, bytes],
        merges: Iterable[Merge],
        special_tokens: Sequence[str] | None = None,
    ) -> None:
        check_special_tokens(special_tokens or [])
        self.vocab: Vocab = dict(vocab)
        self.merges: list[Merge] = [(left, right) for left, right in merges]
        self.special_tokens = list(special_tokens or [])
        if negative := [token_id for token_id in self.vocab if token_id < 0]:
            raise ValueError(f"vocab has the negative token id {negative[0]}")
        # From the highest id to the lowest: where several have the same bytes, the lowest remains.
        self._ids = {self.vocab[i]: i for i in sorted(self.vocab, reverse=True)}
        for token in self.special_tokens:
            if (raw := token.encode("utf-8")) not in self._ids:
                new_id = self.vocab_size
                self._ids[raw] = new_id
                self.vocab[new_id] = raw
        self._special_pattern = special_pattern(self.special_tokens)
        self._ranks: dict[Merge, int] = {}
        for rank, (left, right) in enumerate(self.merges):
            for token in (left, right, left + right):
                if token not in self._ids:
                    raise ValueError(
                        f"merge {rank} of {left!r} and {right!r} needs {token!r}, "
                        "which is not in the vocabulary"
                    )
            self._ranks.setdefault((left, right), rank)  # Of equal merges, the first counts.
        self._cache: dict[str, list[int]] = {}

    @property
    def vocab_size(self) -> int:
        """One more than the highest id: the rows that an embedding needs."""
        return max(self.vocab, default=-1) + 1

    def encode(self, text: str) -> list[int]:
        """Turn text into token ids.

        Args:
            text: Any text. Surrogates of the "surrogateescape" error handler give the raw bytes
                they stand for.

        Raises:
            ValueError: The text has a byte for which the vocabulary has no token, or a lone
                surrogate that stands for no byte.
        """
        ids: list[int] = []
        for index, part in enumerate(self._special_pattern.split(text)):
            if index % 2 == 1:
                ids.append(self._ids[part.encode("utf-8")])
            else:
                for pretoken in PRETOKEN.findall(part):
                    if pretoken not in self._cache:
                        self._cache[pretoken] = self._encode_pretoken(pretoken)
                    ids += self._cache[pretoken]
        return ids

    def _encode_pretoken(self, pretoken: str) -> list[int]:
        tokens = merge_by_rank(text_to_bytes(pretoken), self._ranks)
        try:
            return [self._ids[token] for token in tokens]
        except KeyError as error:  # A single byte: __init__ checked all merged tokens.
            raise ValueError(f"the vocabulary has no token for byte {error.args[0]!r}") from None

    def encode_iterable(self, chunks: Iterable[str]) -> Iterator[int]:
        """Yield what `encode` of the joined chunks returns, one id at a time.

        Little more than the current chunk is held, provided the text has spaces or line ends; the
        cache grows by an entry for each different pre-token.

        Args:
            chunks: Text split at arbitrary points, such as the lines of an open file.

        Raises:
            TypeError: A chunk is not a str.
            ValueError: As in `encode`.
        """
        for chunk in independent_chunks(chunks, self.special_tokens):
            yield from self.encode(chunk)

    def decode(self, ids: Iterable[int]) -> str:
        """Turn token ids into text; bytes that are not UTF-8 become U+FFFD.

        Raises:
            ValueError: An id is not in the vocabulary.
        """
        try:
            return b"".join(self.vocab[i] for i in ids).decode("utf-8", "replace")
        except KeyError as error:
            raise ValueError(
                f"token id {error.args[0]} is not in the vocabulary of {len(self.vocab)} tokens"
            ) from None


def independent_chunks(chunks: Iterable[str], special_tokens: Sequence[str]) -> Iterator[str]:
    """Regroup the arbitrary chunks of a text into chunks whose borders no token crosses.

    The tokens of the new chunks, one chunk after another, are those of the whole text. A new chunk
    ends after a special token, or before a space or line end that follows a visible character: no
    pre-token crosses such a boundary, and no later text changes the pre-tokens before it.
    """
    specials = special_pattern(special_tokens)
    # Matches up to the last visible character that a space or line end follows.
    boundary = re.compile(r".*\S(?=[ \r\n])", re.DOTALL)
    longest_special = max(map(len, special_tokens), default=1)
    kept = ""
    for chunk in chunks:
        kept += chunk
        # A special token that begins at or after this index may not have arrived in full.
        safe_end = len(kept) - longest_special + 1
        ends = [found.end() for found in specials.finditer(kept) if found.start() < safe_end]
        end = ends[-1] if ends else 0
        # One character past safe_end is included: the boundary may look at a space there.
        if last_boundary := boundary.match(kept, end, safe_end + 1):
            end = last_boundary.end()
        if end:
            yield kept[:end]
            kept = kept[end:]
    if kept:
        yield kept
