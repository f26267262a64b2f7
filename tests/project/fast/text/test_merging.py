"""Merging fast: every pre-token gets the tokens that one step after another gives it."""

import math
import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_basics.fast.text import merging
from cs_basics.fast.text.merging import Merger, PairRanks, merge_one


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


def test_ranks_of_pairs_are_those_of_the_dictionary_however_crowded(monkeypatch):
    draw = random.Random(0)
    dictionary = {}
    while len(dictionary) < 3000:
        dictionary[draw.randrange(99), draw.choice([7, 2**21 - 2, draw.randrange(10**6)])] = len(
            dictionary
        )
    known = np.array(list(dictionary))
    foreign = np.stack([known[:, 0], known[:, 1] + 1], axis=1)
    asked = np.concatenate([known, foreign])
    expected = [dictionary.get((left, right), 3000) for left, right in asked.tolist()]
    for slots_per_pair in (8, 1):
        monkeypatch.setattr(merging, "_SLOTS_PER_PAIR", slots_per_pair)
        table = PairRanks(dictionary)
        found = table(np.ascontiguousarray(asked[:, 0]), np.ascontiguousarray(asked[:, 1]))
        assert found.tolist() == expected


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), unique=True, min_size=4),
    st.data(),
)
def test_one_pretoken_gets_the_tokens_of_each_step(ids, pairs, data):
    # Arbitrary products, even inconsistent ones that no training would learn.
    products = data.draw(st.lists(st.integers(0, 3), min_size=len(pairs), max_size=len(pairs)))
    ranks = {pair: rank for rank, pair in enumerate(pairs)}
    assert merge_one(ids, ranks, products) == merge_step_by_step(ids, ranks, products)


def test_what_a_merge_has_made_out_of_date_is_skipped():
    # Once 1 2 has become 3, the waiting merge of 0 1 must not be applied to 0 3.
    ranks, products = {(1, 2): 0, (0, 1): 1, (0, 3): 2}, [3, 4, 5]
    assert merge_one([0, 1, 2], ranks, products) == [5]
