"""Turn many token ids into their bytes at once."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

_WORD_BYTES = 8
_NO_LENGTH = -1


class TokenBytes:
    """The bytes of all tokens, one after the other, copied eight at a time.

    A copy always writes eight bytes; those beyond the end of its token have to be overwritten. So
    what longer tokens have beyond their first eight bytes is copied first: its excess covers at
    most seven bytes after the token, each of which is among the first eight of a later token. Then
    the first eight bytes of all tokens are copied in order: their excess covers only later tokens,
    which are copied after it.

    Args:
        vocab: Token ids and their bytes.
    """

    def __init__(self, vocab: Mapping[int, bytes]) -> None:
        num_ids = max(vocab, default=-1) + 1
        numbers = np.fromiter(vocab, np.int64, len(vocab))
        self._lengths = np.full(num_ids, _NO_LENGTH)
        self._lengths[numbers] = np.fromiter(map(len, vocab.values()), np.int64, len(vocab))
        ends = np.cumsum(self._lengths[numbers])
        self._starts = np.zeros(num_ids, np.int64)
        self._starts[numbers] = ends - self._lengths[numbers]
        self._words = _words_of(b"".join([*vocab.values(), bytes(_WORD_BYTES)]))

    def joined(self, ids: npt.NDArray[np.integer[Any]]) -> bytes:
        """Return the bytes of the tokens, one after the other.

        Raises:
            KeyError: An id, the error's argument, is not in the vocabulary.
        """
        is_known = (ids >= 0) & (ids < len(self._lengths))
        if not is_known.all():
            raise KeyError(ids[~is_known][0])
        lengths = self._lengths.take(ids)
        if (lengths == _NO_LENGTH).any():
            raise KeyError(ids[lengths == _NO_LENGTH][0])
        ends = np.cumsum(lengths)
        places, sources = ends - lengths, self._starts.take(ids)
        num_bytes = int(ends[-1]) if len(ends) else 0
        found = bytearray(num_bytes + _WORD_BYTES)
        words = _words_of(found)
        longest = int(lengths.max(initial=0))
        for offset in range(_WORD_BYTES, longest, _WORD_BYTES):
            long = np.flatnonzero(lengths > offset)
            words[places[long] + offset] = self._words[sources[long] + offset]
        words[places] = self._words[sources]
        return bytes(memoryview(found)[:num_bytes])


def _words_of(data: bytes | bytearray) -> npt.NDArray[np.uint64]:
    """Return the eight bytes at each place as one number, without a copy."""
    return np.ndarray((len(data) - _WORD_BYTES + 1,), np.uint64, data, strides=(1,))
