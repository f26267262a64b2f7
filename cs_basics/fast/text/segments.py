"""Number the segments of a text between its spaces, many at a time: a dictionary made of arrays.

Real text repeats its segments, so what is known of one (its tokens, how often it occurs) is found
once and looked up from then on. A dictionary would do, but it needs an object for each segment
before it can be asked, which takes longer than the look-up. `SegmentTable` looks up all segments of
a chunk at once, with about thirty operations of NumPy on arrays with an element for each segment.
"""

from array import array
from collections import defaultdict
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cs_basics.fast.text.boundaries import is_open

Numbers = npt.NDArray[np.int64]
_Keys = npt.NDArray[np.uint64]

MAX_TEXTS = 1 << 17
MAX_BYTES = 1 << 24
"""Different texts that a table holds, and their bytes, before it has to be emptied."""

_SLOT_BITS = 18
_WORD_BYTES = 8
_LONGEST_KEY = 2 * _WORD_BYTES - 1  # two words; the last byte holds the length
_LENGTH_SHIFT = np.uint64(56)
_BYTES_OF_WORD = np.array([(1 << 8 * size) - 1 for size in range(_WORD_BYTES + 1)], np.uint64)
_SIZES = np.arange(_LONGEST_KEY + 2)  # the last one stands for all that are too long
_FIRST_MASK = _BYTES_OF_WORD[np.minimum(_SIZES, _WORD_BYTES)]
_SECOND_MASK = _BYTES_OF_WORD[np.maximum(_SIZES - _WORD_BYTES, 0)]
_MULTIPLIERS = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xC2B2AE3D27D4EB4F),
)  # odd, without pattern


class _Run(NamedTuple):
    """Segments that are numbered as one text."""

    first: int
    stop: int
    """One more than the number of the last."""


class SegmentTable:
    """Numbers texts in the order in which they are first seen.

    Two levels. Segments of up to 15 bytes have a slot in an array, chosen by a hash of their bytes;
    the slot holds the bytes themselves, so that another segment is never taken for them. A slot
    belongs to the first segment that comes, which is likely a frequent one. Segments without a slot
    are looked up in a dictionary, one by one.

    A segment and the space before it are numbered as one text if the segment ends in a visible
    character: its end is then a boundary (boundaries.py). This is checked when it is new. Otherwise
    it forms one text with the segments after it, up to the first with a visible end.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all texts. Numbers begin anew."""
        self.texts = [b""]
        """Each text by its number; 0 is the empty text."""
        # Looking up a new text gives it the next number.
        self._numbers: dict[bytes, int] = defaultdict(count(1).__next__)
        self._num_bytes = 0
        # A slot: the two words of its segment and the segment's number. An empty one has length 0.
        self._slots = np.zeros((1 << _SLOT_BITS, 3), np.uint64)

    @property
    def is_full(self) -> bool:
        """Whether it should be cleared before the next chunk."""
        return len(self.texts) > MAX_TEXTS or self._num_bytes > MAX_BYTES

    def number(self, data: bytes) -> Numbers:
        """Cut a text at its spaces and return the numbers of the segments, new ones included.

        Args:
            data: A text as bytes; no token may cross its ends.

        Returns:
            Numbers whose texts, joined in order, are the text; no token crosses their ends.
            Nor do tokens cross the ends of the new texts if these are joined in order: all but the
            first begin with a space, and all but the last end in a visible character.
        """
        padded = np.zeros(len(data) + 2 * _WORD_BYTES, np.uint8)
        padded[: len(data)] = np.frombuffer(data, np.uint8)
        ends = np.append(np.flatnonzero(padded[: len(data)] == ord(" ")), len(data))
        starts = np.append(0, ends[:-1] + 1)
        sizes = np.minimum(ends - starts, _LONGEST_KEY + 1)

        # The eight bytes at each position of the text as one number, without a copy.
        words = np.ndarray((len(data) + _WORD_BYTES + 1,), "<u8", padded, strides=(1,))
        first = words[starts] & _FIRST_MASK[sizes]
        second = words[starts + _WORD_BYTES] & _SECOND_MASK[sizes]
        second |= sizes.astype(np.uint64) << _LENGTH_SHIFT
        slots = _slots_of(first, second)
        found = self._slots.take(slots, axis=0)
        is_known = (found[:, 0] == first) & (found[:, 1] == second)
        is_known &= (sizes > 0) & (sizes <= _LONGEST_KEY)  # an empty one looks like an empty slot
        is_known[0] = False  # no space before it
        numbers = found[:, 2].astype(np.int64)

        missed = np.flatnonzero(~is_known)
        last = padded[ends[missed] - 1]
        ends_plainly = (last >= ord("!")) & (last <= ord("~"))
        runs = _runs(data, starts, ends, missed[~ends_plainly].tolist())
        plain = self._look_up(data, starts, ends, missed, runs, numbers)
        plain = plain[(sizes[plain] <= _LONGEST_KEY) & (self._slots[slots[plain], 1] == 0)]
        rows = np.stack([first[plain], second[plain], numbers[plain].astype(np.uint64)], axis=1)
        self._slots[slots[plain]] = rows
        return numbers

    def _look_up(
        self,
        data: bytes,
        starts: Numbers,
        ends: Numbers,
        missed: Numbers,
        runs: list[_Run],
        numbers: Numbers,
    ) -> Numbers:
        """Number the segments that have no slot, in place; return those that may be given one."""
        is_alone = np.ones(len(starts), np.bool_)
        for run in runs:
            is_alone[run.first : run.stop] = False
            numbers[run.first : run.stop] = 0
        alone = missed[is_alone[missed]]
        firsts = np.concatenate([[runs[0].first], alone, [run.first for run in runs[1:]]])
        stops = np.concatenate([[runs[0].stop], alone + 1, [run.stop for run in runs[1:]]])
        firsts, stops = firsts.astype(np.int64), stops.astype(np.int64)
        begins = np.maximum(starts[firsts] - 1, 0)  # from the space on
        texts = map(data.__getitem__, map(slice, begins.tolist(), ends[stops - 1].tolist()))
        num_known = len(self._numbers)
        numbers[firsts] = np.fromiter(map(self._numbers.__getitem__, texts), np.int64, len(firsts))
        new = list(islice(self._numbers, num_known, None))
        self.texts += new
        self._num_bytes += sum(map(len, new))
        return alone[alone < len(starts) - 1]


def _runs(data: bytes, starts: Numbers, ends: Numbers, candidates: list[int]) -> list[_Run]:
    """Return runs from the first segment, and from each that ends open, to the next that does not.

    Args:
        data: The whole text.
        starts: Where the segments start.
        ends: Where they end.
        candidates: Indices of the segments that may end open.
    """
    runs: list[_Run] = []
    stop = 0
    for index in sorted({0, *candidates}):
        if index < stop:
            continue
        stop, ends_open = index + 1, _ends_open(data[starts[index] : ends[index]])
        while ends_open and stop < len(starts):
            ends_open = _ends_open(data[starts[stop] : ends[stop]])
            stop += 1
        if index == 0 or stop > index + 1 or ends_open:
            runs.append(_Run(index, stop))
    return runs


def _slots_of(first: _Keys, second: _Keys) -> Numbers:
    """Hash pairs of words to slots: multiply, and let the upper half change the lower one."""
    mixed = first * _MULTIPLIERS[0]
    mixed ^= second * _MULTIPLIERS[1]
    mixed ^= mixed >> np.uint64(29)
    mixed *= _MULTIPLIERS[0]
    mixed >>= np.uint64(64 - _SLOT_BITS)
    return mixed.view(np.int64)


def _ends_open(segment: bytes) -> bool:
    """Tell whether a segment `is_open`; most end in ASCII and need not be decoded."""
    last = segment[-1:]
    if b"!" <= last <= b"~":
        return False
    return is_open(segment.decode("utf-8", "surrogateescape"))


class IdLists:
    """Lists of token ids, stored one after the other, each known by its number.

    Args:
        typecode: Type of an id, as the array module names it.
    """

    def __init__(self, typecode: str) -> None:
        self._ids = array(typecode)
        self._starts = array("q")
        self._lengths = array("q")

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def num_ids(self) -> int:
        """Number of ids in all lists together."""
        return len(self._ids)

    def extend(self, ids: npt.NDArray[np.integer[Any]], lengths: Numbers) -> None:
        """Add lists, which get the next numbers.

        Args:
            ids: The ids of all lists, one list after the other.
            lengths: Number of ids in each list.
        """
        starts = len(self._ids) + np.cumsum(lengths) - lengths
        self._starts.frombytes(starts.tobytes())
        self._lengths.frombytes(lengths.tobytes())
        self._ids.frombytes(ids.astype(self._ids.typecode).tobytes())

    def lengths_of(self, numbers: Numbers) -> Numbers:
        """Return the lengths of the lists of these numbers."""
        return np.frombuffer(self._lengths, np.int64)[numbers]

    def joined(self, numbers: Numbers) -> npt.NDArray[np.integer[Any]]:
        """Return the lists of these numbers, one after the other."""
        starts = np.frombuffer(self._starts, np.int64)[numbers]
        lengths = self.lengths_of(numbers)
        # An id is as far from the start of its list here as it will be in the result.
        shifts = starts - (np.cumsum(lengths) - lengths)
        places = np.repeat(shifts, lengths)
        places += np.arange(len(places))
        return np.frombuffer(self._ids, np.dtype(self._ids.typecode))[places]
