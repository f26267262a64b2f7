"""Pre-tokens that are remembered have the ids of their bytes, however often all are forgotten."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs_basics.fast.text import pretoken_table
from cs_basics.fast.text.merging import Merger
from cs_basics.fast.text.pretoken_table import PretokenTable

RANKS, PRODUCTS = {(97, 98): 0, (256, 97): 1, (0xC3, 0xA9): 2}, [256, 257, 258]
BYTE_IDS = [byte if byte != ord("x") else -1 for byte in range(256)]
EXPECTED = {"ab": [256], "aba": [257], "\u00e9": [258], "b": [98], "<end>": [7], "\udcc3": [0xC3]}
EXPECTED["ba"] = [98, 97]
EXPECTED |= {"ba" * number: [98, *[256] * (number - 2), 257] for number in range(2, 40)}


@pytest.mark.parametrize("max_pretokens", [0, 5, 1000])
@settings(max_examples=40)
@given(st.lists(st.lists(st.sampled_from(sorted(EXPECTED)), max_size=60), max_size=6))
def test_pretokens_have_their_ids_whatever_was_asked_before(max_pretokens, texts):
    table = PretokenTable(Merger(BYTE_IDS, RANKS, PRODUCTS), {"<end>": 7}, "H")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretoken_table, "MAX_PRETOKENS", max_pretokens)
        for pretokens in texts:
            known = len(table)
            ids, lengths = table.encode(pretokens)
            found = [part.tolist() for part in np.split(ids, np.cumsum(lengths))[:-1]]
            assert found == [EXPECTED[pretoken] for pretoken in pretokens]
            assert len(table) <= min(known, max_pretokens) + 1 + len(set(pretokens))


@pytest.mark.parametrize("num_pretokens", [1, 100])
def test_a_pretoken_that_cannot_be_encoded_is_not_remembered(num_pretokens):
    table = PretokenTable(Merger(BYTE_IDS, RANKS, PRODUCTS), {"<end>": 7}, "H")
    pretokens = ["a" * number for number in range(1, num_pretokens + 1)]
    for _ in range(2):
        with pytest.raises(ValueError, match="no token for byte b'x'"):
            table.encode([*pretokens, "ax"])
    assert table.encode(["a", "<end>"])[0].tolist() == [97, 7]


def test_ids_that_are_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr(pretoken_table, "MAX_IDS", 100)
    table = PretokenTable(Merger(BYTE_IDS, RANKS, PRODUCTS), {}, "H")
    for number in range(100, 120):
        table.encode(["b" * number])
        assert len(table) <= 2
