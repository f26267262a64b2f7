"""Many words at once: every word gets the tokens that the definition gives it."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_basics.bpe import merge_by_rank, merge_incrementally
from cs_basics.fast.text import merging
from cs_basics.fast.text.merging import Merger, PairRanks


def merged(words, ranks, products):
    """Merge words at once, and return them as lists."""
    tokens, lengths = Merger(range(256), ranks, products).encode(list(map(bytes, words)))
    return [part.tolist() for part in np.split(tokens, np.cumsum(lengths))[:-1]]


@pytest.fixture(params=[1, 5, 10**6], ids=["together", "partly", "one by one"])
def min_words(request, monkeypatch):
    """Below how many words those that are left are finished one by one."""
    monkeypatch.setattr(merging, "MIN_WORDS", request.param)


bytes_used = st.sampled_from([0, 1, 2, ord(" ")])
pairs = st.tuples(bytes_used, bytes_used)


@pytest.mark.usefixtures("min_words")
@given(
    st.lists(st.lists(bytes_used, min_size=1, max_size=20), max_size=12),
    st.lists(pairs, unique=True, max_size=16),
    st.data(),
)
def test_every_word_gets_the_tokens_of_the_definition(words, pairs, data):
    # Arbitrary products, even inconsistent ones that no training would learn.
    products = data.draw(st.lists(bytes_used, min_size=len(pairs), max_size=len(pairs)))
    ranks = {pair: rank for rank, pair in enumerate(pairs)}
    expected = [merge_by_rank(word, ranks, products) for word in words]
    assert merged(words, ranks, products) == expected


@pytest.mark.usefixtures("min_words")
def test_learned_merges_are_applied_as_by_the_definition():
    draw = random.Random(0)
    words = [bytes(draw.choices(b"etaoin", k=draw.randint(1, 30))) for _ in range(300)]
    merges = merge_incrementally(dict.fromkeys(words, 1), 400)
    ids = {bytes([byte]): byte for byte in range(256)}
    for left, right in merges:
        ids[left + right] = len(ids)
    ranks = {(ids[left], ids[right]): rank for rank, (left, right) in enumerate(merges)}
    products = list(range(256, 256 + len(merges)))
    found = merged([list(word) for word in words], ranks, products)
    assert found == [merge_by_rank(word, ranks, products) for word in words]
    assert sum(map(len, found)) < sum(map(len, words)) / 2


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


def test_without_words_or_merges_nothing_happens():
    assert merged([], {(0, 0): 0}, [1]) == []
    assert merged([[0, 0], [1]], {}, []) == [[0, 0], [1]]
