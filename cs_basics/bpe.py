"""Byte-pair encoding: learn which adjacent tokens to merge, and apply what was learned.

Second of three files (pretokenize, bpe, tokenizer). A token is a byte string; every pre-token
starts as its single bytes, and each merge joins two neighbours wherever they occur. The idea comes
first (`learn_merges_naively`), then the same made faster, then what makes a vocabulary of a file.
Sennrich et al. 2016 (https://arxiv.org/abs/1508.07909), algorithm 1; on bytes as in GPT-2.
Tested by `make test ARGS="-k bpe"`.
"""

import logging
import math
import os
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from cs_basics.pretokenize import check_special_tokens, count_pretokens

logger = logging.getLogger(__name__)

Vocab = dict[int, bytes]
Merge = tuple[bytes, bytes]

SINGLE_BYTES = [bytes([byte]) for byte in range(256)]


def merge_pair(tokens: Sequence[bytes], pair: Merge) -> list[bytes]:
    """Join each occurrence of a pair, left to right, without overlaps.

    >>> merge_pair([b"a", b"a", b"a", b"b"], (b"a", b"a"))
    [b'aa', b'a', b'b']
    """
    merged: list[bytes] = []
    for token in tokens:
        if merged and (merged[-1], token) == pair:
            merged[-1] += token
        else:
            merged.append(token)
    return merged


def learn_merges_naively(pretoken_counts: Mapping[bytes, int], num_merges: int) -> list[Merge]:
    """Merge the most frequent pair of neighbours, again and again.

    The idea of byte-pair encoding, too slow to use: each merge counts all pairs anew. Of equally
    frequent pairs the greater one is merged: left parts are compared, then right ones, as bytes.

    >>> learn_merges_naively({b"low": 5, b"lower": 2, b"newest": 6, b"widest": 3}, 3)
    [(b's', b't'), (b'e', b'st'), (b'o', b'w')]

    Args:
        pretoken_counts: Occurrences of each pre-token.
        num_merges: Merges to learn; fewer are returned if no pair is left.
    """
    splits = {pretoken: [SINGLE_BYTES[b] for b in pretoken] for pretoken in pretoken_counts}
    merges: list[Merge] = []
    for _ in range(num_merges):
        pair_counts: Counter[Merge] = Counter()
        for pretoken, tokens in splits.items():
            for pair in pairwise(tokens):
                pair_counts[pair] += pretoken_counts[pretoken]
        if not pair_counts:
            break
        merges.append(max(pair_counts, key=lambda pair: (pair_counts[pair], pair)))
        for pretoken, tokens in splits.items():
            splits[pretoken] = merge_pair(tokens, merges[-1])
    return merges


def learn_merges(pretoken_counts: Mapping[bytes, int], num_merges: int) -> list[Merge]:
    """Learn the same merges faster: recount pairs only in pre-tokens that a merge may change."""
    counts = list(pretoken_counts.values())
    splits = [[SINGLE_BYTES[byte] for byte in pretoken] for pretoken in pretoken_counts]
    pair_counts: Counter[Merge] = Counter()
    # For each pair, the indices in `splits` of the pre-tokens that have it, and perhaps of some
    # that had it once: merging leaves those as they are.
    indices: defaultdict[Merge, set[int]] = defaultdict(set)
    for index, (tokens, count) in enumerate(zip(splits, counts, strict=True)):
        for pair in pairwise(tokens):
            pair_counts[pair] += count
            indices[pair].add(index)
    merges: list[Merge] = []
    while pair_counts and len(merges) < num_merges:
        highest = max(pair_counts.values())
        best = max(pair for pair, count in pair_counts.items() if count == highest)
        merges.append(best)
        for index in indices.pop(best):
            for pair in pairwise(splits[index]):
                pair_counts[pair] -= counts[index]
                if pair_counts[pair] == 0:  # A pair that is gone must not be merged.
                    del pair_counts[pair]
            splits[index] = merge_pair(splits[index], best)
            for pair in pairwise(splits[index]):
                pair_counts[pair] += counts[index]
                indices[pair].add(index)
    return merges


def train_bpe(
    input_path: str | os.PathLike[str], vocab_size: int, special_tokens: Sequence[str]
) -> tuple[Vocab, list[Merge]]:
    """Learn a vocabulary of byte strings from a text file.

    Args:
        input_path: Text file, any bytes; read into memory as a whole.
        vocab_size: Number of tokens, special ones included. A text with too few pairs to merge
            gives a smaller vocabulary and a logged warning.
        special_tokens: Strings that are one token each, never split, never counted.

    Returns:
        The bytes of each token by its id, and the merges in the order in which they were learned.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is empty, vocab_size leaves no room for the bytes and the special
            tokens, or a special token is empty or repeated.
    """
    num_merges = count_merges(vocab_size, special_tokens)
    text = Path(input_path).read_bytes().decode("utf-8", "surrogateescape")
    if not text:
        raise ValueError(f"{input_path} is empty: there is no text to learn from")
    merges = learn_merges(count_pretokens(text, special_tokens), num_merges)
    return make_vocab(merges, vocab_size, special_tokens), merges


def count_merges(vocab_size: int, special_tokens: Sequence[str]) -> int:
    """Return how many merges fit into a vocabulary, after the 256 bytes and the special tokens.

    Raises:
        ValueError: A special token is empty or repeated, or vocab_size is too small.
    """
    check_special_tokens(special_tokens)
    num_others = 256 + sum(len(token.encode("utf-8")) > 1 for token in special_tokens)
    if vocab_size < num_others:
        raise ValueError(
            f"vocab_size={vocab_size} is too small: 256 bytes and {num_others - 256} special "
            f"tokens need at least {num_others}"
        )
    return vocab_size - num_others


def make_vocab(merges: Sequence[Merge], vocab_size: int, special_tokens: Sequence[str]) -> Vocab:
    """Number the tokens: byte b has id b; then come the merged tokens, then the special tokens.

    A special token of one byte has that byte's id. Warns if there are fewer tokens than vocab_size.
    """
    tokens = [*SINGLE_BYTES, *(left + right for left, right in merges)]
    tokens += [token.encode("utf-8") for token in special_tokens if len(token.encode("utf-8")) > 1]
    if len(tokens) < vocab_size:
        sizes = f"the vocabulary has {len(tokens)} tokens, not {vocab_size}"
        logger.warning(f"the text has no pair left to merge after {len(merges)} merges: {sizes}")
    return dict(enumerate(tokens))


def merge_by_rank(pretoken: bytes, ranks: Mapping[Merge, int]) -> list[bytes]:
    """Split a pre-token into tokens: apply the earliest-learned merge that fits, until none does.

    >>> merge_by_rank(b"lowest", {(b"s", b"t"): 0, (b"e", b"st"): 1, (b"w", b"e"): 2})
    [b'l', b'o', b'w', b'est']

    Args:
        pretoken: The bytes of the pre-token.
        ranks: Position of each pair in the list of merges.
    """
    tokens = [SINGLE_BYTES[byte] for byte in pretoken]
    while len(tokens) > 1:
        pair = min(pairwise(tokens), key=lambda pair: ranks.get(pair, math.inf))
        if pair not in ranks:
            break
        tokens = merge_pair(tokens, pair)
    return tokens
