"""Train a byte-pair encoding on large texts: the book's `train_bpe`, fast and by many processes."""

import heapq
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from cs_basics.bpe import SINGLE_BYTES, Merge, Vocab, count_merges, make_vocab
from cs_basics.fast.text.counting import count_pretokens_of_file
from cs_basics.fast.text.parallel import OnProgress

MERGES_PER_REPORT = 64


def train_bpe(
    input_path: str | os.PathLike[str],
    vocab_size: int,
    special_tokens: Sequence[str],
    num_workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> tuple[Vocab, list[Merge]]:
    """Learn what `cs_basics.bpe.train_bpe` learns, without reading the file as a whole.

    Args:
        input_path: Text file, any bytes; or a pipe.
        vocab_size: As there.
        special_tokens: As there.
        num_workers: Processes that read the text; None chooses. The result is always the same.
        on_progress: Called now and then with the progress of reading, then of merging.

    Raises:
        OSError, ValueError: As there.
    """
    num_merges = count_merges(vocab_size, special_tokens)
    counts = count_pretokens_of_file(input_path, special_tokens, num_workers, on_progress)
    merges = learn_merges(counts, num_merges, on_progress)
    return make_vocab(merges, vocab_size, special_tokens), merges


def learn_merges(
    pretoken_counts: Mapping[bytes, int], num_merges: int, on_progress: OnProgress | None = None
) -> list[Merge]:
    """Learn what `cs_basics.bpe.learn_merges` learns.

    Four things make it fast. A pre-token is a string in which each character is a token, so that a
    merge is a replacement of two characters by one, and a pair is a string, too. A merge rewrites
    only the pre-tokens that hold the pair, found through an index. Of their pair counts it corrects
    those beside the new token. And the most frequent pair comes from a heap: a merge creates counts
    only for pairs with the new token and lowers all others, so an entry of the heap is never too
    low. If the top entry turns out too high, it goes back with its true count; if it is true,
    nothing below can beat it.

    Args:
        pretoken_counts: Occurrences of each pre-token.
        num_merges: Merges to learn; fewer are returned if no pair is left.
        on_progress: Called now and then.

    Raises:
        ValueError: There are fewer characters (1.1 million) than there would be tokens.
    """
    if num_merges > sys.maxunicode + 1 - len(SINGLE_BYTES):
        raise ValueError(f"num_merges={num_merges} is above {sys.maxunicode + 1 - 256}")
    tokens = list(SINGLE_BYTES)
    # The heap pops its least entry, so the greater byte string needs the lesser key.
    keys = [_descending_key(token) for token in tokens]
    splits = [pretoken.decode("latin-1") for pretoken in pretoken_counts]  # a character per byte
    counts = list(pretoken_counts.values())
    pair_counts, splits_with = _index_pairs(splits, counts)
    heap = [(-count, _pair_key(pair, keys), pair) for pair, count in pair_counts.items()]
    heapq.heapify(heap)

    merges: list[Merge] = []
    tell = on_progress or _tell_nobody
    tell("merging", "merges", 0, num_merges)
    for pair in _most_frequent(heap, pair_counts):
        if len(merges) == num_merges:
            break
        left, right = (tokens[ord(token)] for token in pair)
        product = chr(len(tokens))
        tokens.append(left + right)
        keys.append(_descending_key(left + right))
        merges.append((left, right))
        changes: dict[str, int] = defaultdict(int)
        for index in splits_with.pop(pair):
            merged = splits[index].replace(pair, product)
            if len(merged) == len(splits[index]):
                continue  # another merge has taken the pair away, or it is in the index twice
            splits[index] = merged
            for new in _count_changes(merged, pair, product, counts[index], changes):
                splits_with[new].append(index)
        for changed, change in changes.items():
            pair_counts[changed] += change
            if change > 0:
                heapq.heappush(heap, (-change, _pair_key(changed, keys), changed))
        del pair_counts[pair]
        if len(merges) % MERGES_PER_REPORT == 0 or len(merges) == num_merges:
            tell("merging", "merges", len(merges), num_merges)
    return merges


def _tell_nobody(*_: object) -> None:
    """Take the place of `on_progress`."""


def _index_pairs(
    splits: list[str], counts: list[int]
) -> tuple[dict[str, int], dict[str, list[int]]]:
    """Return the occurrences of each pair, and the numbers of the pre-tokens that hold it."""
    pair_counts: dict[str, int] = defaultdict(int)
    splits_with: dict[str, list[int]] = defaultdict(list)
    for index, (split, count) in enumerate(zip(splits, counts, strict=True)):
        for left, right in pairwise(split):
            pair_counts[left + right] += count
            splits_with[left + right].append(index)
    return pair_counts, splits_with


def _count_changes(
    merged: str, pair: str, product: str, count: int, changes: dict[str, int]
) -> list[str]:
    """Add up how a merge changes the counts of the pairs beside each new token of one pre-token.

    Args:
        merged: The pre-token after the merge.
        pair: What was merged.
        product: The new token.
        count: Occurrences of the pre-token.
        changes: Changes of the counts so far; pairs with the product are those that grow.

    Returns:
        The pairs with the product.
    """
    left, right = pair
    new: list[str] = []
    # What is between occurrences of the new token; empty where two of them are adjacent.
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
    """Return a key that sorts pairs by their byte strings, the greater pair first."""
    return keys[ord(pair[0])] + keys[ord(pair[1])]


def _descending_key(token: bytes) -> str:
    """Return a key that sorts byte strings in descending order; concatenated keys do so for pairs.

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
