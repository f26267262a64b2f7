"""Count the pre-tokens of a text file, at several times the speed of the pattern that finds them.

`count_by_pattern` is the definition. `PieceCounter` does the same to a text that repeats itself, as
all real text does: it counts the pieces between spaces by their numbers (cs_basics.fast.text.pieces), and
looks for the pre-tokens of each different one once.

Test: pytest tests/project/test_counting.py
"""

import os
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np
import regex

from cs_basics.fast.text.blocks import Block, file_blocks
from cs_basics.fast.text.parallel import default_num_workers, map_in_order
from cs_basics.fast.text.pieces import PieceTable
from cs_basics.pretokenize import (
    PRETOKEN,
    check_special_tokens,
    file_size,
    pretokens,
    special_pattern,
    text_to_bytes,
)
from cs_basics.run.progress import OnProgress, Progress

MIN_BLOCK_BYTES = 1 << 22
MAX_BLOCK_BYTES = 1 << 25
BLOCKS_PER_WORKER = 4


def count_pretokens(
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
        on_progress: Called after each block.

    Returns:
        Occurrences of each pre-token.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is empty, or a special token is (see check_special_tokens).
    """
    check_special_tokens(special_tokens)
    size = file_size(path)
    num_workers = default_num_workers(num_workers, size)
    block_bytes = size // (num_workers * BLOCKS_PER_WORKER)
    block_bytes = min(max(block_bytes, MIN_BLOCK_BYTES), MAX_BLOCK_BYTES)
    blocks = file_blocks(path, special_tokens, block_bytes)
    counts: Counter[str] = Counter()
    started, bytes_read = time.monotonic(), 0
    for num_bytes, block_counts in map_in_order(
        partial(_count_block, special_tokens), blocks, num_workers
    ):
        for pretoken, count in block_counts.items():
            counts[pretoken] += count
        bytes_read += num_bytes
        if on_progress:
            elapsed_s = time.monotonic() - started
            on_progress(Progress("counting words", "bytes", bytes_read, size, elapsed_s))
    return Counter({text_to_bytes(pretoken): count for pretoken, count in counts.items()})


def _count_block(special_tokens: Sequence[str], block: Block) -> tuple[int, Counter[str]]:
    """Size of a block in bytes, and its pre-tokens counted."""
    counter = PieceCounter(special_tokens)
    for piece in block.pieces(special_tokens):
        counter.count(piece)
    return block.num_bytes, counter.pretokens()


def count_by_pattern(text: str, specials: regex.Pattern[str] | None) -> Counter[str]:
    """Count the pre-tokens of a text, special tokens being boundaries. The definition."""
    counts: Counter[str] = Counter()
    for ordinary in specials.split(text)[::2] if specials else [text]:
        counts.update(PRETOKEN.findall(ordinary))
    return counts


class PieceCounter:
    """Counts the pre-tokens of texts, as `count_by_pattern` does.

    A special token that has a space would be cut at it, so with such a one the definition is used.

    Args:
        special_tokens: Boundaries, which are not counted.
    """

    def __init__(self, special_tokens: Sequence[str]) -> None:
        self._special_tokens = list(special_tokens)
        self._specials = special_pattern(special_tokens)
        self._cuts_at_spaces = not any(" " in token for token in special_tokens)
        self._table = PieceTable()
        self._occurrences = np.zeros(1, np.int64)  # of each text of the table
        self._pretokens: Counter[str] = Counter()

    def count(self, data: bytes) -> None:
        """Count one more text, which shares no token with those before."""
        if not self._cuts_at_spaces:
            text = data.decode("utf-8", "surrogateescape")
            self._pretokens.update(count_by_pattern(text, self._specials))
            return
        occurrences = np.bincount(self._table.number(data), minlength=len(self._occurrences))
        occurrences[: len(self._occurrences)] += self._occurrences
        self._occurrences = occurrences
        if self._table.is_full:
            self._find_pretokens()

    def pretokens(self) -> Counter[str]:
        """Return how often each pre-token has occurred."""
        self._find_pretokens()
        return self._pretokens

    def _find_pretokens(self) -> None:
        """Turn occurrences of texts into those of pre-tokens."""
        counts = self._pretokens
        texts = (text.decode("utf-8", "surrogateescape") for text in self._table.texts)
        for text, times in zip(texts, self._occurrences.tolist(), strict=False):
            if self._specials and any(token in text for token in self._special_tokens):
                for pretoken, count in count_by_pattern(text, self._specials).items():
                    counts[pretoken] += count * times
            else:
                for pretoken in pretokens(text):
                    counts[pretoken] += times
        self._table.clear()
        self._occurrences = np.zeros(1, np.int64)
