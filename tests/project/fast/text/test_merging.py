"""Merging fast: every pre-token gets the tokens that one step after another gives it."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_basics.fast.text import merging
from cs_basics.fast.text.merging import Merger


def merge_step_by_step(ids, ranks, products):
    """Apply the merge of lowest rank, leftmost first, until none applies."""
    ids = list(ids)
    while len(ids) > 1:
        steps = [(ranks.get(pair, math.inf), place) for place, pair in enumerate(pairwise(ids))]
        rank, place = min(steps)
        if rank == math.inf:
            break
        ids[place : place + 2] = [products[rank]]
    return ids


def merged(words, ranks, products):
    """Merge words at once, and return them as lists."""
    tokens, lengths = Merger(range(256), ranks, products).encode(list(map(bytes, words)))
    return [part.tolist() for part in np.split(tokens, np.cumsum(lengths))[:-1]]


@pytest.fixture(params=[1, 5, 10**6], ids=["together", "partly", "one by one"])
def min_pretokens(request, monkeypatch):
    """Below how many words those that are left are finished one by one."""
    monkeypatch.setattr(merging, "MIN_PRETOKENS", request.param)


bytes_used = st.sampled_from([0, 1, 2, ord(" ")])
pairs = st.tuples(bytes_used, bytes_used)


@pytest.mark.usefixtures("min_pretokens")
@given(
    st.lists(st.lists(bytes_used, min_size=1, max_size=20), max_size=12),
    st.lists(pairs, unique=True, max_size=16),
    st.data(),
)
def test_every_pretoken_gets_the_tokens_of_each_step(words, pairs, data):
    # Arbitrary products, even inconsistent ones that no training would learn.
    products = data.draw(st.lists(bytes_used, min_size=len(pairs), max_size=len(pairs)))
    ranks = {pair: rank for rank, pair in enumerate(pairs)}
    expected = [merge_step_by_step(word, ranks, products) for word in words]
    assert merged(words, ranks, products) == expected
