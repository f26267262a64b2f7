"""The book's tokenizer made fast: long texts by arrays, files by many processes.

Short texts are encoded as in the book, which is as fast for them. A long text is cut into chunks at
boundaries and each chunk into segments at its spaces; the segments are numbered (segments.py), and
the new ones are encoded all together (pretoken_table.py, merging.py).
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cs_basics.bpe import SINGLE_BYTES, Merge
from cs_basics.fast.text.blocks import Block, byte_chunks, file_blocks, file_size
from cs_basics.fast.text.merging import NO_TOKEN, Merger
from cs_basics.fast.text.parallel import OnProgress, default_num_workers, map_in_order
from cs_basics.fast.text.pretoken_table import PretokenTable
from cs_basics.fast.text.segments import IdLists, Numbers, SegmentTable
from cs_basics.pretokenize import PRETOKEN, text_to_bytes
from cs_basics.tokenizer import Tokenizer

Ids = npt.NDArray[np.integer[Any]]

SHORT_TEXT = 1 << 12
"""Characters up to which the book's way is faster than arrays."""
MAX_CACHED_PRETOKENS = 1 << 15
"""Number of pre-tokens from which the book's cache is emptied: nearly all that a text repeats."""

BLOCK_BYTES = 1 << 21
"""Bytes of a file that are one task of a worker process."""


class FastTokenizer(Tokenizer):
    """Does what `cs_basics.tokenizer.Tokenizer` does, and more for large amounts of text.

    Args:
        vocab: As in Tokenizer, with ids below 2^32.
        merges: As in Tokenizer, in the order in which they were learned: where a merge joins what a
            later one makes, the results may differ.
        special_tokens: As in Tokenizer.

    Raises:
        TypeError, ValueError: As in Tokenizer.
    """

    def __init__(
        self,
        vocab: Mapping[int, bytes],
        merges: Iterable[Merge],
        special_tokens: Sequence[str] | None = None,
    ) -> None:
        super().__init__(vocab, merges, special_tokens)
        if self.vocab_size > 1 << 32:
            raise ValueError(f"the token id {self.vocab_size - 1} is more than a token file holds")
        self.dtype = "uint16" if self.vocab_size <= 1 << 16 else "uint32"
        """Smallest type of an array that holds every id."""
        products = [self._ids[left + right] for left, right in self.merges]
        ranks = {
            (self._ids[left], self._ids[right]): rank for (left, right), rank in self._ranks.items()
        }
        byte_ids = [self._ids.get(byte, NO_TOKEN) for byte in SINGLE_BYTES]
        self._merger = Merger(byte_ids, ranks, products)
        self._special_ids = {
            token: self._ids[token.encode("utf-8")] for token in self.special_tokens
        }
        self._splits_at_spaces = not any(" " in token for token in self.special_tokens)
        self._forget()

    def encode(self, text: str) -> list[int]:
        """Turn text into token ids, as `Tokenizer.encode` does."""
        if len(text) <= SHORT_TEXT:
            return self._encode_as_the_book(text)
        return self.encode_to_array(text).tolist()

    def encode_to_array(self, text: str) -> Ids:
        """Return the ids of `encode` as an array of `dtype`, without making an object of each."""
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError:
            # Escaped bytes would be joined to characters when they are decoded again.
            return np.array(self._encode_as_the_book(text), self.dtype)
        return self.encode_bytes(data)

    def encode_bytes(self, data: bytes) -> Ids:
        """Return the ids that `encode` gives for the text that these bytes decode to.

        Args:
            data: The text in UTF-8. Invalid bytes are kept, too.

        Returns:
            One id per token, of type `dtype`.

        Raises:
            ValueError: As in `encode`.
        """
        return self._encode_chunks(byte_chunks(data, self.special_tokens))

    def encode_blocks(
        self,
        path: str | os.PathLike[str],
        num_workers: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> Iterator[tuple[int, Ids]]:
        """Encode a text file of any size, a block of it at a time, by several processes.

        Memory does not grow with the file: a process is told which block to read.

        Args:
            path: Text file, any bytes; or a pipe.
            num_workers: Processes; None chooses by the file's size. The result is always the same.
            on_progress: Called at the start and after each block.

        Yields:
            For each block, in order, its number of bytes and its ids.

        Raises:
            OSError: The file cannot be read; or a worker was killed.
            ValueError: The file is empty or has a byte for which the vocabulary has no token.
        """
        size = file_size(path)
        workers = default_num_workers(num_workers, size)
        blocks = file_blocks(path, self.special_tokens, BLOCK_BYTES)
        done = 0
        if on_progress:
            on_progress("encoding", "bytes", 0, size)
        for num_bytes, ids in map_in_order(self._encode_block, blocks, workers):
            yield num_bytes, ids
            done += num_bytes
            if on_progress:
                on_progress("encoding", "bytes", done, size)

    def _encode_as_the_book(self, text: str) -> list[int]:
        if len(self._cache) > MAX_CACHED_PRETOKENS:
            self._cache.clear()
        return super().encode(text)

    def _encode_pretoken(self, pretoken: str) -> list[int]:
        return self._merger.encode_one(text_to_bytes(pretoken))

    def _encode_block(self, block: Block) -> tuple[int, Ids]:
        return block.num_bytes, self._encode_chunks(block.chunks(self.special_tokens))

    def _encode_chunks(self, chunks: Iterable[bytes]) -> Ids:
        parts = list(map(self._encode_chunk, chunks))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _encode_chunk(self, data: bytes) -> Ids:
        """Encode a text through the numbers of its segments, each of which is encoded only once.

        Exact since no pre-token and no special token crosses the end of a segment.
        """
        if not self._splits_at_spaces:
            text = data.decode("utf-8", "surrogateescape")
            return np.array(self._encode_as_the_book(text), self.dtype)
        if self._segments.is_full:
            self._forget()
        numbers = self._segments.number(data)
        try:
            new = self._segments.texts[len(self._segment_ids) :]
            self._segment_ids.extend(*self._encode_together(new))
        except ValueError:
            self._forget()  # no text may be left in the table without its ids
            raise
        return self._segment_ids.joined(numbers)

    def _encode_together(self, texts: list[bytes]) -> tuple[Ids, Numbers]:
        """Encode the texts that a call of `SegmentTable.number` has added, as if they were one.

        Returns:
            The ids, and how many each text has.
        """
        pretokens = self._split(b"".join(texts).decode("utf-8", "surrogateescape"))
        ids, ids_of_pretoken = self._pretokens.encode(pretokens)
        if len(texts) == 1:
            return ids, np.array([len(ids)])
        # A text ends where a pre-token ends.
        pretoken_ends = np.cumsum(np.fromiter(map(len, pretokens), np.int64, len(pretokens)))
        text_ends = np.cumsum(np.fromiter(map(_num_characters, texts), np.int64, len(texts)))
        ids_before = np.append(0, np.cumsum(ids_of_pretoken))
        pretokens_before = np.searchsorted(pretoken_ends, text_ends, "right")
        return ids, np.diff(ids_before[pretokens_before], prepend=0)

    def _split(self, text: str) -> list[str]:
        """Split text into pre-tokens and special tokens."""
        found: list[str] = []
        for index, part in enumerate(self._special_pattern.split(text)):
            found += [part] if index % 2 == 1 else PRETOKEN.findall(part)
        return found

    def _forget(self) -> None:
        """Empty the tables that earlier texts have filled."""
        typecode = "H" if self.dtype == "uint16" else "I"
        self._pretokens = PretokenTable(self._merger, self._special_ids, typecode)
        self._segments = SegmentTable()
        self._segment_ids = IdLists(typecode)
        self._segment_ids.extend(np.zeros(0, np.int64), np.zeros(1, np.int64))  # of the empty text

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to send to another process, without what is remembered."""
        remembered = ("_pretokens", "_segments", "_segment_ids")
        state = {name: value for name, value in vars(self).items() if name not in remembered}
        return state | {"_cache": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state in another process."""
        vars(self).update(state)
        self._forget()


def _num_characters(data: bytes) -> int:
    return len(data) if data.isascii() else len(data.decode("utf-8", "surrogateescape"))
