"""Counting by pieces: the same as by the pattern, for any text and any special tokens."""

from collections import Counter
from pathlib import Path

import pytest
from awkward import EOT, all_specials, awkward_bytes, closed_specials
from hypothesis import given
from hypothesis import strategies as st

from cs_basics.fast.text import pieces
from cs_basics.fast.text.counting import PieceCounter, count_by_pattern, count_pretokens
from cs_basics.pretokenize import special_pattern


def by_pattern(blocks, special_tokens):
    counts = Counter()
    for data in blocks:
        text = data.decode("utf-8", "surrogateescape")
        counts.update(count_by_pattern(text, special_pattern(special_tokens)))
    return counts


@given(st.lists(awkward_bytes, max_size=6), closed_specials | all_specials)
def test_counting_by_pieces_agrees_with_counting_by_the_pattern(blocks, special_tokens):
    counter = PieceCounter(special_tokens)
    for data in blocks * 2:
        counter.count(data)
    assert counter.pretokens() == by_pattern(blocks * 2, special_tokens)


@given(st.lists(awkward_bytes, max_size=6), closed_specials)
def test_a_table_that_fills_up_loses_no_count(blocks, special_tokens):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "MAX_TEXTS", 3)
        counter = PieceCounter(special_tokens)
        for data in blocks:
            counter.count(data)
        assert counter.pretokens() == by_pattern(blocks, special_tokens)


@pytest.mark.parametrize(
    "name", ["books/alice_in_wonderland.txt", "books/sherlock.txt", "tinystories/valid.txt"]
)
def test_counts_of_real_text_are_those_of_the_pattern(name):
    path = Path(__file__).parents[5] / "shared" / "data" / name
    if not path.is_file():
        pytest.skip(f"no text at ../shared/data/{name}")
    expected = by_pattern([path.read_bytes()], [EOT])
    found = count_pretokens(path, [EOT])
    assert found == {text.encode("utf-8", "surrogateescape"): n for text, n in expected.items()}
