"""Count the pre-tokens of a text file, at several times the speed of the pattern that finds them.

Real text repeats itself. `SegmentCounter` counts the segments between spaces by their numbers
(segments.py) and looks for the pre-tokens of each different segment only once; its counts are those
of the book's `count_pretokens`.
"""

import os
from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np

from cs_basics.fast.text.blocks import Block, file_blocks, file_size
from cs_basics.fast.text.parallel import OnProgress, default_num_workers, map_in_order
from cs_basics.fast.text.segments import SegmentTable
from cs_basics.pretokenize import PRETOKEN, count_pretokens, text_to_bytes

MIN_BLOCK_BYTES = 1 << 22
MAX_BLOCK_BYTES = 1 << 25
BLOCKS_PER_WORKER = 4


def count_pretokens_of_file(
    path: str | os.PathLike[str],
    special_tokens: Sequence[str],
    num_workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> Counter[bytes]:
    """Count the pre-tokens of a file; special tokens are boundaries and are not counted.

    Args:
        path: Text file, any bytes.
        special_tokens: Strings that no pre-token may cross; of overlapping ones the longest wins.
        num_workers: Processes; None chooses by the file's size. The result is always the same.
        on_progress: Called at the start and after each block.

    Returns:
        Occurrences of each pre-token.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is empty.
    """
    size = file_size(path)
    num_workers = default_num_workers(num_workers, size)
    block_bytes = size // (num_workers * BLOCKS_PER_WORKER)
    block_bytes = min(max(block_bytes, MIN_BLOCK_BYTES), MAX_BLOCK_BYTES)
    blocks = file_blocks(path, special_tokens, block_bytes)
    counts: Counter[bytes] = Counter()
    bytes_read = 0
    if on_progress:
        on_progress("counting pre-tokens", "bytes", 0, size)
    for num_bytes, block_counts in map_in_order(
        partial(_count_block, special_tokens), blocks, num_workers
    ):
        for pretoken, count in block_counts.items():
            counts[pretoken] += count
        bytes_read += num_bytes
        if on_progress:
            on_progress("counting pre-tokens", "bytes", bytes_read, size)
    return counts


def _count_block(special_tokens: Sequence[str], block: Block) -> tuple[int, Counter[bytes]]:
    """Return the size of a block in bytes and the counts of its pre-tokens."""
    counter = SegmentCounter(special_tokens)
    for chunk in block.chunks(special_tokens):
        counter.count(chunk)
    return block.num_bytes, counter.pretokens()


class SegmentCounter:
    """Counts the pre-tokens of texts, as the book's `count_pretokens` does.

    Special tokens with a space would be cut at it: if there are any, `count_pretokens` is used.

    Args:
        special_tokens: Boundaries, which are not counted.
    """

    def __init__(self, special_tokens: Sequence[str]) -> None:
        self._special_tokens = list(special_tokens)
        self._splits_at_spaces = not any(" " in token for token in special_tokens)
        self._table = SegmentTable()
        self._occurrences = np.zeros(1, np.int64)  # of each text of the table
        self._pretokens: Counter[bytes] = Counter()

    def count(self, data: bytes) -> None:
        """Count one more text; no token may reach into it from the text before."""
        if not self._splits_at_spaces:
            text = data.decode("utf-8", "surrogateescape")
            self._pretokens.update(count_pretokens(text, self._special_tokens))
            return
        occurrences = np.bincount(self._table.number(data), minlength=len(self._occurrences))
        occurrences[: len(self._occurrences)] += self._occurrences
        self._occurrences = occurrences
        if self._table.is_full:
            self._find_pretokens()

    def pretokens(self) -> Counter[bytes]:
        """Return how often each pre-token has occurred."""
        self._find_pretokens()
        return self._pretokens

    def _find_pretokens(self) -> None:
        """Turn occurrences of texts into those of pre-tokens."""
        counts: Counter[str] = Counter()
        texts = (text.decode("utf-8", "surrogateescape") for text in self._table.texts)
        for text, times in zip(texts, self._occurrences.tolist(), strict=False):
            if any(token in text for token in self._special_tokens):
                for pretoken, count in count_pretokens(text, self._special_tokens).items():
                    self._pretokens[pretoken] += count * times
            else:
                for pretoken in PRETOKEN.findall(text):
                    counts[pretoken] += times
        for pretoken, count in counts.items():
            self._pretokens[text_to_bytes(pretoken)] += count
        self._table.clear()
        self._occurrences = np.zeros(1, np.int64)
