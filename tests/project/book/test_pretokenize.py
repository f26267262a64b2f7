"""Pre-tokens: however a text is cut, the same are found (counts: the examination)."""

from itertools import pairwise

import pytest
from awkward import EOT, all_specials, awkward_text, tokens_of
from hypothesis import given
from hypothesis import strategies as st

from cs_basics.tokenizer import independent_chunks


@given(awkward_text, all_specials, st.lists(st.integers(0, 200)))
def test_new_chunks_have_the_tokens_of_the_whole_text_however_it_is_cut(text, special_tokens, cuts):
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    for chunks in ([text[start:end] for start, end in pairwise(places)], ["", *text, ""]):
        regrouped = list(independent_chunks(chunks, special_tokens))
        assert "".join(regrouped) == text
        found = [token for chunk in regrouped for token in tokens_of(chunk, special_tokens)]
        assert found == tokens_of(text, special_tokens)


def test_new_chunks_arrive_as_soon_as_they_are_certain():
    drawn = 0

    def endless():
        nonlocal drawn
        while True:
            drawn += 1
            yield "w" if drawn % 5 else " "

    regrouped = independent_chunks(endless(), [EOT])
    for _ in range(100):
        before = drawn
        next(regrouped)
        assert drawn - before < 64


def test_chunks_of_bytes_are_refused():
    with pytest.raises(TypeError):
        list(independent_chunks([b"abc"], []))
