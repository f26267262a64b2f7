"""Byte-pair encoding of words: learn which adjacent pieces to merge, and apply what was learned.

Second of three files (pretokenize, bpe, tokenizer). Learning: `merge_by_recounting` is the
definition, `merge_incrementally` learns the same merges fast enough to use. Applying:
`merge_by_rank` is the definition, `merge_word` does the same fast (see merging.py for many words).

Sennrich et al. 2016 (https://arxiv.org/abs/1508.07909), algorithm 1; on bytes as in GPT-2.

Test: pytest tests/project/test_bpe.py
"""

import heapq
import logging
import math
import os
import sys
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

from cs_basics.fast.text.counting import count_pretokens
from cs_basics.pretokenize import check_special_tokens
from cs_basics.run.progress import OnProgress, Progress

logger = logging.getLogger(__name__)

Vocab = dict[int, bytes]
Merge = tuple[bytes, bytes]
Pair = tuple[int, int]
Ranks = dict[Pair, int]
Piece = TypeVar("Piece", int, bytes)

SINGLE_BYTES = [bytes([byte]) for byte in range(256)]

NO_TOKEN = -1
"""In the place of the token of a byte that a vocabulary lacks."""

MAX_PLAIN_LENGTH = 256
"""Bytes up to which looking at each pair of a word anew is faster than a heap."""

MERGES_PER_REPORT = 64


def train_bpe(
    input_path: str | os.PathLike[str],
    vocab_size: int,
    special_tokens: Sequence[str],
    num_workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> tuple[Vocab, list[Merge]]:
    """Learn a vocabulary of byte strings from a text file.

    Ids are those of GPT-2's convention: the 256 bytes, id b being byte b, then the product of each
    merge in order, then the special tokens. A special token of one byte keeps that byte's id.

    Args:
        input_path: Text file, any bytes; see cs_basics.pretokenize for how it is split.
        vocab_size: Tokens in all, special ones included. A text with too few pairs of bytes to
            fill it gives a smaller vocabulary and a logged warning.
        special_tokens: Strings that are one token each, never split, never counted.
        num_workers: Processes that read the text; None chooses. The result is always the same.
        on_progress: Called now and then with the progress of reading, then of merging.

    Returns:
        The vocabulary (id to bytes) and the merges in the order in which they were learned.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is empty, vocab_size leaves no room for the bytes and the special
            tokens, or a special token is empty or repeated.
    """
    check_special_tokens(special_tokens)
    special_bytes = [token.encode("utf-8") for token in special_tokens]
    new_specials = [token for token in special_bytes if len(token) > 1]
    num_merges = vocab_size - len(SINGLE_BYTES) - len(new_specials)
    if num_merges < 0:
        raise ValueError(
            f"vocab_size={vocab_size} is too small: 256 bytes and {len(new_specials)} special "
            f"tokens need at least {len(SINGLE_BYTES) + len(new_specials)}"
        )
    pretoken_counts = count_pretokens(input_path, special_tokens, num_workers, on_progress)
    merges = merge_incrementally(pretoken_counts, num_merges, on_progress)
    if len(merges) < num_merges:
        logger.warning(
            "%s has no pair left to merge after %d of %d merges: the vocabulary has %d tokens, "
            "not %d",
            input_path,
            len(merges),
            num_merges,
            vocab_size - num_merges + len(merges),
            vocab_size,
        )
    products = [left + right for left, right in merges]
    return dict(enumerate([*SINGLE_BYTES, *products, *new_specials])), merges


def merge_by_recounting(pretoken_counts: Mapping[bytes, int], num_merges: int) -> list[Merge]:
    """Learn merges by the book: count every pair, merge the most frequent, start again.

    The definition that `merge_incrementally` is tested against. Each merge costs a pass over all
    words, which is hours for a real corpus.

    Args:
        pretoken_counts: Occurrences of each pre-token.
        num_merges: Merges to learn; fewer are returned if no pair is left.

    Returns:
        The merged pairs in order. Of equally frequent pairs the greater one comes first, comparing
        left parts and then right parts as byte strings.
    """
    words = [
        ([SINGLE_BYTES[byte] for byte in pretoken], count)
        for pretoken, count in pretoken_counts.items()
    ]
    merges: list[Merge] = []
    while len(merges) < num_merges:
        pair_counts: Counter[Merge] = Counter()
        for pieces, count in words:
            for pair in pairwise(pieces):
                pair_counts[pair] += count
        if not pair_counts:
            break
        best = max(pair_counts, key=lambda pair: (pair_counts[pair], pair))
        words = [(merge_pair(pieces, best, best[0] + best[1]), count) for pieces, count in words]
        merges.append(best)
    return merges


def merge_pair(pieces: Sequence[Piece], pair: tuple[Piece, Piece], product: Piece) -> list[Piece]:
    """Replace each occurrence of a pair by its product, left to right, without overlaps."""
    merged: list[Piece] = []
    index = 0
    while index < len(pieces):
        if pieces[index] == pair[0] and index + 1 < len(pieces) and pieces[index + 1] == pair[1]:
            merged.append(product)
            index += 2
        else:
            merged.append(pieces[index])
            index += 1
    return merged


def merge_incrementally(
    pretoken_counts: Mapping[bytes, int], num_merges: int, on_progress: OnProgress | None = None
) -> list[Merge]:
    """Learn the merges of `merge_by_recounting`, touching only what each merge changes.

    Four things make it fast. A word is a string in which each character is a token, so that a merge
    is a replacement of two characters by one, and a pair is a string, too. A merge rewrites only
    the words that hold the pair, found through an index. Of their pair counts it corrects those
    beside the new token. And the most frequent pair comes from a heap: a merge creates counts only
    for pairs with the new token and lowers all others, so an entry of the heap is never too low. If
    the top entry turns out too high, it goes back with its true count; if it is true, nothing below
    can beat it.

    Args:
        pretoken_counts: Occurrences of each pre-token.
        num_merges: Merges to learn; fewer are returned if no pair is left.
        on_progress: Called now and then.

    Returns:
        The merged pairs in order, ties as in `merge_by_recounting`.

    Raises:
        ValueError: There are fewer characters (1.1 million) than there would be tokens.
    """
    if num_merges > sys.maxunicode + 1 - len(SINGLE_BYTES):
        raise ValueError(f"num_merges={num_merges} is above {sys.maxunicode + 1 - 256}")
    tokens = list(SINGLE_BYTES)
    # The heap pops its least entry, so the greater byte string needs the lesser key.
    keys = [_descending_key(token) for token in tokens]
    words = [pretoken.decode("latin-1") for pretoken in pretoken_counts]  # a character for a byte
    counts = list(pretoken_counts.values())
    pair_counts, words_with = _index_pairs(words, counts)
    heap = [(-count, _pair_key(pair, keys), pair) for pair, count in pair_counts.items()]
    heapq.heapify(heap)

    merges: list[Merge] = []
    started = time.monotonic()
    for pair in _most_frequent(heap, pair_counts):
        if len(merges) == num_merges:
            break
        left, right = (tokens[ord(token)] for token in pair)
        product = chr(len(tokens))
        tokens.append(left + right)
        keys.append(_descending_key(left + right))
        merges.append((left, right))
        changes: dict[str, int] = defaultdict(int)
        for index in words_with.pop(pair):
            merged = words[index].replace(pair, product)
            if len(merged) == len(words[index]):
                continue  # another merge has taken the pair away, or it is in the index twice
            words[index] = merged
            for new in _count_changes(merged, pair, product, counts[index], changes):
                words_with[new].append(index)
        for changed, change in changes.items():
            pair_counts[changed] += change
            if change > 0:
                heapq.heappush(heap, (-change, _pair_key(changed, keys), changed))
        del pair_counts[pair]
        if on_progress and (len(merges) % MERGES_PER_REPORT == 0 or len(merges) == num_merges):
            elapsed_s = time.monotonic() - started
            on_progress(Progress("merging", "merges", len(merges), num_merges, elapsed_s))
    return merges


def _index_pairs(
    words: list[str], counts: list[int]
) -> tuple[dict[str, int], dict[str, list[int]]]:
    """Occurrences of each pair, and the numbers of the words that hold it."""
    pair_counts: dict[str, int] = defaultdict(int)
    words_with: dict[str, list[int]] = defaultdict(list)
    for index, (word, count) in enumerate(zip(words, counts, strict=True)):
        for left, right in pairwise(word):
            pair_counts[left + right] += count
            words_with[left + right].append(index)
    return pair_counts, words_with


def _count_changes(
    merged: str, pair: str, product: str, count: int, changes: dict[str, int]
) -> list[str]:
    """Add up how a merge changes the counts of the pairs beside each new token of one word.

    Args:
        merged: The word after the merge.
        pair: What was merged.
        product: The new token.
        count: Occurrences of the word.
        changes: Changes of the counts so far; pairs with the product are those that grow.

    Returns:
        The pairs with the product.
    """
    left, right = pair
    new: list[str] = []
    # Between two places of the new token; nothing where it stands beside itself.
    stretches = merged.split(product)
    for index, (before, after) in enumerate(pairwise(stretches)):
        if before:
            changes[before[-1] + left] -= count
            new.append(before[-1] + product)
        elif index:
            changes[right + left] -= count
            new.append(product + product)
        if after:
            changes[right + after[0]] -= count
            new.append(product + after[0])
    for added in new:
        changes[added] += count
    return new


def _pair_key(pair: str, keys: list[str]) -> str:
    """Key that sorts pairs by their byte strings, the greater pair first."""
    return keys[ord(pair[0])] + keys[ord(pair[1])]


def _descending_key(token: bytes) -> str:
    """Key that sorts byte strings the other way round, and concatenated keys pairs likewise.

    Each byte is mirrored; a last character above all of them ranks a string behind its extensions.
    """
    return "".join(chr(255 - byte) for byte in token) + "\u0100"


def _most_frequent(heap: list[tuple[int, str, str]], pair_counts: dict[str, int]) -> Iterator[str]:
    """Yield the most frequent pair of the moment, while the caller changes heap and counts."""
    while heap:
        negative_count, key, pair = heapq.heappop(heap)
        count = pair_counts.get(pair, 0)
        if count == -negative_count:
            yield pair
        elif count > 0:
            heapq.heappush(heap, (-count, key, pair))


def merge_by_rank(ids: Sequence[int], ranks: Ranks, products: Sequence[int]) -> list[int]:
    """Apply the merge of lowest rank, leftmost first, until none applies. The definition.

    Args:
        ids: Tokens of a word's single bytes.
        ranks: Position in the list of merges of each pair of tokens.
        products: Token that the merge of each rank makes.

    Returns:
        Tokens of the word. The time grows with the square of its length.
    """
    ids = list(ids)
    while len(ids) > 1:
        rank, index = min(
            (ranks.get(pair, math.inf), index) for index, pair in enumerate(pairwise(ids))
        )
        if rank == math.inf:
            break
        ids[index : index + 2] = [products[int(rank)]]
    return ids


def merge_word(ids: Sequence[int], ranks: Ranks, products: Sequence[int]) -> list[int]:
    """Do what `merge_by_rank` does in the way that is the faster one for a word of this length.

    Args:
        ids: Tokens of a word's single bytes.
        ranks: Position in the list of merges of each pair of tokens.
        products: Token that the merge of each rank makes.

    Returns:
        Tokens of the word.
    """
    merge = merge_lowest_first if len(ids) <= MAX_PLAIN_LENGTH else merge_by_rank_with_heap
    return merge(ids, ranks, products)


def merge_lowest_first(ids: Sequence[int], ranks: Ranks, products: Sequence[int]) -> list[int]:
    """Do what `merge_by_rank` does, looking up only the two pairs that a merge changes.

    For words of up to some hundred bytes: the search for the lowest rank passes over the whole
    word, but inside `min`.

    Args:
        ids: Tokens of a word's single bytes.
        ranks: Position in the list of merges of each pair of tokens.
        products: Token that the merge of each rank makes.

    Returns:
        Tokens of the word.
    """
    tokens = list(ids)
    none = len(products)  # above every rank
    rank_of = ranks.get
    found = [rank_of(pair, none) for pair in pairwise(tokens)]
    while found and (rank := min(found)) != none:
        place = found.index(rank)
        tokens[place : place + 2] = [products[rank]]
        del found[place]
        if place:
            found[place - 1] = rank_of((tokens[place - 1], tokens[place]), none)
        if place < len(found):
            found[place] = rank_of((tokens[place], tokens[place + 1]), none)
    return tokens


def merge_by_rank_with_heap(ids: Sequence[int], ranks: Ranks, products: Sequence[int]) -> list[int]:
    """Do what `merge_by_rank` does in time about linear in the length, for words of any length.

    The places of each rank stand in a list, and a heap says which rank is next. A merge changes
    only its two neighbours, which a linked list finds at once. Places that merges have made out of
    date stay in the lists and are skipped when their turn comes.

    Args:
        ids: Tokens of a word's single bytes.
        ranks: Position in the list of merges of each pair of tokens.
        products: Token that the merge of each rank makes.

    Returns:
        Tokens of the word.
    """
    word = _LinkedWord(ids)
    places_of: dict[int, list[int]] = {}
    pair_of: dict[int, Pair] = {}
    waiting: list[int] = []  # the ranks that have places, as a heap

    def remember(place: int, pair: Pair) -> None:
        rank = ranks.get(pair)
        if rank is None:
            return
        if rank in places_of:
            places_of[rank].append(place)
        else:
            places_of[rank] = [place]
            pair_of[rank] = pair
            heapq.heappush(waiting, rank)

    for place, pair in enumerate(pairwise(ids)):
        remember(place, pair)
    while waiting:
        rank = heapq.heappop(waiting)
        places = sorted(places_of.pop(rank))
        for index, place in enumerate(places):
            for changed, pair in word.merge(place, pair_of[rank], products[rank]):
                remember(changed, pair)
            if waiting and waiting[0] <= rank:
                # Merges that no training learns: a product's pair comes before what made it.
                for later in places[index + 1 :]:
                    remember(later, pair_of[rank])
                break
    return word.remaining()


class _LinkedWord:
    """Tokens that know their neighbours, so that two of them are joined in constant time."""

    _SWALLOWED = -1  # in the place of a token that a merge has joined to the one before it

    def __init__(self, ids: Sequence[int]) -> None:
        # Arrays, since a list of so many numbers would not stay in the processor's cache.
        self._tokens = array("q", ids)
        self._end = len(ids)
        self._following = array("q", range(1, self._end + 1))
        self._preceding = array("q", range(-1, self._end - 1))

    def merge(self, place: int, pair: Pair, product: int) -> list[tuple[int, Pair]]:
        """Merge the pair at a place if it is still there; return the new pairs and their places."""
        tokens, following = self._tokens, self._following
        swallowed = following[place]
        if tokens[place] != pair[0] or swallowed == self._end or tokens[swallowed] != pair[1]:
            return []
        tokens[place] = product
        tokens[swallowed] = self._SWALLOWED
        new: list[tuple[int, Pair]] = []
        after = following[place] = following[swallowed]
        if after < self._end:
            self._preceding[after] = place
            new.append((place, (product, tokens[after])))
        if (before := self._preceding[place]) >= 0:
            new.append((before, (tokens[before], product)))
        return new

    def remaining(self) -> list[int]:
        """Return the tokens that no merge has swallowed."""
        return [token for token in self._tokens if token != self._SWALLOWED]
