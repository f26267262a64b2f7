"""Pre-tokens: nothing is lost, and however a text is cut, the same are found."""

from collections import Counter
from itertools import pairwise

import pytest
from awkward import awkward_text, tokens_of
from hypothesis import given
from hypothesis import strategies as st

from cs_basics.pretokenize import check_special_tokens, count_pretokens, text_to_bytes
from cs_basics.tokenizer import independent_chunks

EOT = "<|endoftext|>"
SPECIALS = [EOT, EOT + EOT, "aa", "aab", " \n", "'l", "a b"]
special_lists = st.lists(st.sampled_from(SPECIALS), unique=True)


@given(awkward_text, special_lists, st.lists(st.integers(0, 200)))
def test_new_chunks_have_the_tokens_of_the_whole_text_however_it_is_cut(text, special_tokens, cuts):
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    for chunks in ([text[start:end] for start, end in pairwise(places)], ["", *text, ""]):
        regrouped = list(independent_chunks(chunks, special_tokens))
        assert "".join(regrouped) == text
        found = [token for chunk in regrouped for token in tokens_of(chunk, special_tokens)]
        assert found == tokens_of(text, special_tokens)


@given(awkward_text, special_lists, st.integers(0, 60))
def test_a_new_chunk_is_final_whatever_follows(text, special_tokens, length):
    settled = list(independent_chunks([text[:length], ""], special_tokens))[:-1]
    found = [token for chunk in settled for token in tokens_of(chunk, special_tokens)]
    assert found == tokens_of(text, special_tokens)[: len(found)]


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


@given(awkward_text, special_lists)
def test_counts_are_of_all_tokens_that_are_not_special(text, special_tokens):
    ordinary = [token for token in tokens_of(text, special_tokens) if token not in special_tokens]
    assert count_pretokens(text, special_tokens) == Counter(map(text_to_bytes, ordinary))


def test_counts_keep_line_ends_and_invalid_bytes():
    text = b"a\r\nb\xff\xfe \xc3\xa9\xc3".decode("utf-8", "surrogateescape")
    assert count_pretokens(text, []) == {
        b"a": 1, b"\r": 1, b"\n": 1, b"b": 1, b"\xff\xfe": 1, b" \xc3\xa9": 1, b"\xc3": 1
    }  # fmt: skip


@pytest.mark.parametrize(
    ("special_tokens", "message"),
    [(["a", ""], "empty"), (["a", "b", "a"], "repeated")],
)
def test_empty_and_repeated_special_tokens_are_refused(special_tokens, message):
    with pytest.raises(ValueError, match=message):
        check_special_tokens(special_tokens)
