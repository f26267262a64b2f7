"""Turn text into token ids and back with a trained byte-pair encoding.

Last of three files (pretokenize, bpe, tokenizer): joins the other two, and caches the ids of
pre-tokens.

Radford et al. 2019 (GPT-2), sec. 2.2.

Tested by `make test ARGS="-k encod"`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cs_basics.bpe import Merge, Vocab, merge_by_rank
from cs_basics.pretokenize import (
    PRETOKEN,
    check_special_tokens,
    independent_chunks,
    special_pattern,
    text_to_bytes,
)


class Tokenizer:
    """A byte-pair encoding, ready to use.

    Args:
        vocab: Token ids and their bytes; ids may have any order and gaps. Copied.
        merges: Pairs of tokens in the order in which they were learned. Copied.
        special_tokens: Strings that are always one token; of overlapping ones the longest wins.
            Those that the vocabulary lacks get new ids above the highest.

    Raises:
        TypeError: vocab does not map int to bytes, or special_tokens is not a list of strings.
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
        for token_id, token in self.vocab.items():
            if not (
                isinstance(token_id, int)  # pyright: ignore[reportUnnecessaryIsInstance]
                and isinstance(token, bytes)  # pyright: ignore[reportUnnecessaryIsInstance]
            ):
                raise TypeError(f"vocab maps {token_id!r} to {token!r}: it must map int to bytes")
            if token_id < 0:
                raise ValueError(f"vocab has the negative token id {token_id}")
        # Of several ids with the same bytes the lowest is used: it is entered last.
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
            self._ranks.setdefault((left, right), rank)  # The first of equal merges counts.
        self._cache: dict[str, list[int]] = {}

    @property
    def vocab_size(self) -> int:
        """One more than the highest id: the rows that an embedding needs."""
        return max(self.vocab, default=-1) + 1

    def encode(self, text: str) -> list[int]:
        """Turn text into token ids.

        Special tokens are found first; the text between them is split into pre-tokens, and each
        pre-token is encoded by itself.

        Args:
            text: Any text. Surrogates of the "surrogateescape" error handler give the raw bytes
                they stand for.

        Raises:
            ValueError: The text has a byte for which the vocabulary has no token, or another lone
                surrogate.
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
        except KeyError as error:  # Merged tokens are in the vocabulary: it is a single byte.
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
