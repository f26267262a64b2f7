"""Words that are remembered: each has the ids of its bytes, however often the table is emptied."""

import numpy as np
import pytest
from cs_basics.fast.text.words import WordTable
from hypothesis import given, settings
from hypothesis import strategies as st

from cs_basics.fast.text import words as words_module
from cs_basics.fast.text.merging import Merger

RANKS, PRODUCTS = {(97, 98): 0, (256, 97): 1, (0xC3, 0xA9): 2}, [256, 257, 258]
BYTE_IDS = [byte if byte != ord("x") else -1 for byte in range(256)]
EXPECTED = {"ab": [256], "aba": [257], "\u00e9": [258], "b": [98], "<end>": [7], "\udcc3": [0xC3]}
EXPECTED["ba"] = [98, 97]
EXPECTED |= {"ba" * number: [98, *[256] * (number - 2), 257] for number in range(2, 40)}


@pytest.mark.parametrize("max_words", [0, 5, 1000])
@settings(max_examples=40)
@given(st.lists(st.lists(st.sampled_from(sorted(EXPECTED)), max_size=60), max_size=6))
def test_words_have_their_ids_whatever_was_asked_before(max_words, texts):
    table = WordTable(Merger(BYTE_IDS, RANKS, PRODUCTS), {"<end>": 7}, "H")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words_module, "MAX_WORDS", max_words)
        for words in texts:
            known = len(table)
            ids, lengths = table.encode(words)
            found = [part.tolist() for part in np.split(ids, np.cumsum(lengths))[:-1]]
            assert found == [EXPECTED[word] for word in words]
            assert len(table) <= min(known, max_words) + 1 + len(set(words))


@pytest.mark.parametrize("num_words", [1, 100])
def test_a_word_that_cannot_be_encoded_is_not_remembered(num_words):
    table = WordTable(Merger(BYTE_IDS, RANKS, PRODUCTS), {"<end>": 7}, "H")
    words = ["a" * number for number in range(1, num_words + 1)]
    for _ in range(2):
        with pytest.raises(ValueError, match="no token for byte b'x'"):
            table.encode([*words, "ax"])
    assert table.encode(["a", "<end>"])[0].tolist() == [97, 7]


def test_ids_that_are_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr(words_module, "MAX_IDS", 100)
    table = WordTable(Merger(BYTE_IDS, RANKS, PRODUCTS), {}, "H")
    for number in range(100, 120):
        table.encode(["b" * number])
        assert len(table) <= 2
