"""Apply merges to many pre-tokens at once: each round makes one merge in every pre-token.

`merge_one` takes about half a microsecond for a merge, most of which goes into handling Python's
objects. In `Merger` the pre-tokens lie one after the other in an array, and an operation of NumPy
does for all of them what a step of `merge_one` does for one. Tokens are ids here, not bytes.
"""

import heapq
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

Ranks = Mapping[tuple[int, int], int]
Integers = npt.NDArray[np.int64]

NO_TOKEN = -1
"""Stands for the token of a byte that a vocabulary lacks."""

MIN_PRETOKENS = 24
"""With fewer pre-tokens it is faster to merge them one by one."""

_BITS = 21
"""Bits of a token, and of a rank: a pair and its rank then fit into 63 bits, leaving the sign."""
MAX_IDS = (1 << _BITS) - 1
"""A tokenizer with ids or ranks this high or higher encodes pre-tokens one by one."""

_SWALLOWED = -2
"""In `merge_one`, replaces a token that a merge has joined to the one before it."""
_SEPARATOR = MAX_IDS
"""Marks a place without a token: between pre-tokens, and where a merge has removed one."""
_EMPTY = (1 << 63) - 1  # two separators
_IS_SHARED = np.int64(-1 << 63)  # the sign
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, without pattern
_SLOTS_PER_PAIR = 8
_PLACE_BITS = 32
_PLACE_MASK = (1 << _PLACE_BITS) - 1


def merge_one(ids: Sequence[int], ranks: Ranks, products: Sequence[int]) -> list[int]:
    """Apply the merge of lowest rank, leftmost first, until none applies.

    For merges in the order in which they were learned this is what the book's `merge_by_rank` does,
    in time about linear in the length. A heap says which merge is next; a merge changes only its
    two neighbours, which a linked list finds at once. Entries that a merge has made obsolete
    stay in the heap and are skipped when their turn comes.

    Args:
        ids: Tokens of a pre-token's single bytes.
        ranks: Position in the list of merges of each pair of tokens.
        products: Token that the merge of each rank makes.

    Returns:
        Tokens of the pre-token.
    """
    tokens = list(ids)
    end = len(tokens)
    following, preceding = list(range(1, end + 1)), list(range(-1, end - 1))
    # Rank and place as one number, the least of which is the next step.
    steps = [ranks[p] * end + place for place, p in enumerate(pairwise(tokens)) if p in ranks]
    heapq.heapify(steps)
    while steps:
        rank, place = divmod(heapq.heappop(steps), end)
        swallowed = following[place]
        if swallowed == end or ranks.get((tokens[place], tokens[swallowed])) != rank:
            continue
        product = tokens[place] = products[rank]
        tokens[swallowed] = _SWALLOWED
        after, before = following[swallowed], preceding[place]
        following[place] = after
        if after < end:
            preceding[after] = place
            if (new := ranks.get((product, tokens[after]))) is not None:
                heapq.heappush(steps, new * end + place)
        if before >= 0 and (new := ranks.get((tokens[before], product))) is not None:
            heapq.heappush(steps, new * end + before)
    return [token for token in tokens if token != _SWALLOWED]


class PairRanks:
    """Ranks of pairs of tokens, looked up for many pairs at once: a hash table made of arrays.

    A slot holds a pair and, in its lower bits, the pair's rank. If that pair is the one asked for,
    an exclusive or of the two leaves the rank; if not, a number above all ranks, so that nothing
    has to be compared. Of several pairs that share a slot all but one are in a sorted array
    instead; the sign of the slot says that there are such pairs.

    Args:
        ranks: Ranks of the pairs, from 0; tokens and ranks are below MAX_IDS.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.none = max(ranks.values(), default=-1) + 1
        """What a pair without a rank gets: a number above every rank."""
        tokens = np.fromiter(chain.from_iterable(ranks), np.int64, 2 * len(ranks)).reshape(-1, 2)
        pairs = _joined(tokens[:, 0], tokens[:, 1])
        entries = pairs | np.fromiter(ranks.values(), np.int64, len(ranks))
        bits = max((_SLOTS_PER_PAIR * len(ranks)).bit_length(), 1)
        self._shift = np.uint64(64 - bits)
        self._slots = np.full(1 << bits, _EMPTY)
        slots = self._slots_of(pairs)
        self._slots[slots] = entries
        has_none = self._slots[slots] != entries
        self._slots[slots[has_none]] |= _IS_SHARED
        self._others = np.sort(np.append(entries[has_none], _EMPTY))

    def __call__(self, left: Integers, right: Integers) -> Integers:
        """Return the rank of each pair."""
        pairs = _joined(left, right)
        ranks = self._slots.take(self._slots_of(pairs))
        ranks ^= pairs
        shared = np.flatnonzero(ranks < 0)
        if len(shared):
            wanted = pairs[shared]
            others = self._others[np.searchsorted(self._others, wanted)] ^ wanted
            ranks[shared] = np.minimum(ranks[shared] ^ _IS_SHARED, others)
        return np.minimum(ranks, self.none, out=ranks)

    def _slots_of(self, pairs: Integers) -> Integers:
        slots = pairs.view(np.uint64) * _MULTIPLIER
        slots >>= self._shift
        return slots.view(np.int64)


def _joined(left: Integers, right: Integers) -> Integers:
    """Return pairs as numbers, with room for a rank."""
    pairs = left << _BITS
    pairs |= right
    pairs <<= _BITS
    return pairs


class Merger:
    """Encodes pre-tokens, one or many at once.

    Args:
        byte_ids: Token of each byte, or NO_TOKEN.
        ranks: Position in the list of merges of each pair of tokens.
        products: Token that the merge of each rank makes.
    """

    def __init__(self, byte_ids: Sequence[int], ranks: Ranks, products: Sequence[int]) -> None:
        self._ids_of_bytes = list(byte_ids)
        self._byte_ids = np.array(byte_ids, np.int64)
        self._ranks, self._products = ranks, products
        largest = max(chain([len(products)], byte_ids, products, chain.from_iterable(ranks)))
        self._is_too_large = largest >= MAX_IDS
        self._rank_of = PairRanks({} if self._is_too_large else ranks)
        self._product_of = np.array(products, np.int64)
        right, left = np.divmod(np.arange(1 << 16), 1 << 8)
        self._rank_of_bytes = self._rank_of(self._byte_ids[left], self._byte_ids[right])

    def encode_one(self, pretoken: bytes) -> list[int]:
        """Encode a pre-token as `merge_one` merges its bytes.

        Raises:
            ValueError: A byte has no token.
        """
        ids = list(map(self._ids_of_bytes.__getitem__, pretoken))
        if NO_TOKEN in ids:
            raise self._no_token_error(pretoken)
        return merge_one(ids, self._ranks, self._products)

    def encode(self, pretokens: Sequence[bytes]) -> tuple[Integers, Integers]:
        """Encode pre-tokens, each as `merge_one` merges its bytes.

        Args:
            pretokens: Bytes of each, at least one byte.

        Returns:
            The tokens of all pre-tokens, one after the other, and how many each pre-token has.

        Raises:
            ValueError: A byte has no token.
        """
        if len(pretokens) < MIN_PRETOKENS or self._is_too_large:
            merged = [self.encode_one(pretoken) for pretoken in pretokens]
            lengths = np.array(list(map(len, merged)), np.int64)
            return np.array(list(chain.from_iterable(merged)), np.int64), lengths
        # A byte between two pre-tokens makes room for a separator.
        data = b" ".join([*pretokens, b" "])
        ends = np.cumsum(np.fromiter(map(len, pretokens), np.int64, len(pretokens)) + 1)
        tokens = self._byte_ids.take(np.frombuffer(data, np.uint8)[:-1])
        tokens[ends - 1] = _SEPARATOR
        if (tokens == NO_TOKEN).any():
            raise self._no_token_error(b"".join(pretokens))
        # The two bytes at each place as one number, without a copy.
        pairs = np.ndarray((len(tokens),), "<u2", data, strides=(1,))
        ranks = self._rank_of_bytes.take(pairs)
        ranks[ends - 1] = ranks[ends - 2] = self._rank_of.none
        starts = np.append(0, ends[:-1])
        self._merge(tokens, ranks, starts, ends)
        is_token = tokens != _SEPARATOR
        return tokens[is_token], np.diff(np.cumsum(is_token)[ends - 1], prepend=0)

    def _merge(self, tokens: Integers, ranks: Integers, starts: Integers, ends: Integers) -> None:
        """Merge in rounds, in place.

        Each round merges one pair in every pre-token: that of the lowest rank, the leftmost of
        several. This is a step of `merge_one`, so that nothing has to be proven about ranks or
        products. A pair is known by one number, its rank followed by its place; the least number of
        a pre-token is its next merge. Each token knows the places of the next one and of the one
        before.

        There are as many rounds as the longest pre-token has merges. When few pre-tokens are left,
        they are finished one by one.

        Args:
            tokens: Tokens of single bytes, a separator after each pre-token. Afterwards the merged
                tokens, with a separator in each place whose token was joined to the one before.
            ranks: Rank of the pair that begins at each place.
            starts: Where each pre-token begins.
            ends: Where each pre-token ends, its separator included.
        """
        places = np.arange(len(tokens))
        following, preceding = places + 1, places - 1
        preceding[0] = len(places) - 1  # a separator, as before every other pre-token
        steps = (ranks << _PLACE_BITS) | places
        nothing = self._rank_of.none << _PLACE_BITS
        unfinished = starts
        while len(unfinished) >= MIN_PRETOKENS:
            # reduceat takes a finished pre-token for a part of the one before it. This is harmless:
            # none of its steps is less than `nothing`.
            lowest = np.minimum.reduceat(steps, unfinished)
            goes_on = np.flatnonzero(lowest < nothing)
            unfinished, lowest = unfinished.take(goes_on), lowest.take(goes_on)
            place = lowest & _PLACE_MASK
            product = self._product_of.take(lowest >> _PLACE_BITS)
            swallowed = following.take(place)
            after, before = following.take(swallowed), preceding.take(place)
            tokens[place], tokens[swallowed] = product, _SEPARATOR
            following[place], preceding[after] = after, place
            changed = np.concatenate([before, place])
            left = np.concatenate([tokens.take(before), product])
            right = np.concatenate([product, tokens.take(after)])
            steps[swallowed] = nothing
            steps[changed] = self._rank_of(left, right) << _PLACE_BITS | changed
        for index in np.searchsorted(starts, unfinished).tolist():
            pretoken = tokens[starts[index] : ends[index]]
            ids = pretoken[pretoken != _SEPARATOR].tolist()
            merged = merge_one(ids, self._ranks, self._products)
            pretoken[:] = _SEPARATOR
            pretoken[: len(merged)] = merged

    def _no_token_error(self, data: bytes) -> ValueError:
        byte = next(byte for byte in data if self._byte_ids[byte] == NO_TOKEN)
        return ValueError(f"the vocabulary has no token for byte {bytes([byte])!r}")
