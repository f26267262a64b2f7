"""Ids of the pre-tokens of a text: each different one is encoded once, all new ones together."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import count, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from cs_basics.fast.text.merging import Merger
from cs_basics.fast.text.segments import IdLists
from cs_basics.pretokenize import text_to_bytes

MAX_PRETOKENS = 1 << 15
MAX_IDS = 1 << 20
"""How many different pre-tokens, and ids of them, are remembered; the last call may exceed both."""


class PretokenTable:
    """Encodes pre-tokens and remembers them.

    Args:
        merger: Knows the merges.
        special_ids: Ids of the special tokens, each of which counts as a pre-token of one token.
        typecode: Type of an id, as the array module names it.
    """

    def __init__(self, merger: Merger, special_ids: Mapping[str, int], typecode: str) -> None:
        self._merger, self._special_ids, self._typecode = merger, special_ids, typecode
        self.clear()

    def __len__(self) -> int:
        return len(self._numbers)

    def clear(self) -> None:
        """Forget all pre-tokens but the special tokens."""
        # Looking up a new pre-token gives it the next number.
        self._numbers: dict[str, int] = defaultdict(count(len(self._special_ids)).__next__)
        self._numbers.update(zip(self._special_ids, count(), strict=False))
        self._ids = IdLists(self._typecode)
        self._ids.extend(np.array([*self._special_ids.values()]), np.ones(len(self), np.int64))

    def encode(
        self, pretokens: Sequence[str]
    ) -> tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.int64]]:
        """Encode pre-tokens and special tokens.

        Returns:
            The ids of all pre-tokens, one after the other, and how many each has.

        Raises:
            ValueError: One has a byte for which the vocabulary has no token.
        """
        if len(self) > MAX_PRETOKENS or self._ids.num_ids > MAX_IDS:
            self.clear()
        num_known = len(self)
        numbers = np.fromiter(map(self._numbers.__getitem__, pretokens), np.int64, len(pretokens))
        if len(self) > num_known:
            new = islice(self._numbers, num_known, None)
            try:
                self._ids.extend(*self._merger.encode(list(map(text_to_bytes, new))))
            except ValueError:
                self.clear()  # no pre-token may have a number without its ids
                raise
        return self._ids.joined(numbers), self._ids.lengths_of(numbers)
