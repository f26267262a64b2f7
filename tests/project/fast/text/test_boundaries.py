"""Boundaries: on both sides of one the tokens are those of the whole text."""

from itertools import chain

import pytest
from awkward import EOT, all_specials, awkward_bytes, awkward_text, tokens_of
from hypothesis import given
from hypothesis import strategies as st

from cs_basics.fast.text import boundaries
from cs_basics.fast.text.boundaries import BOUNDARY, Span, is_open, next_boundary, spans
from cs_basics.pretokenize import PRETOKEN


def assert_cut_well(data, parts, special_tokens):
    """Demand that parts are the whole and their tokens those of the whole."""
    assert b"".join(parts) == data
    special_tokens = [token.decode() for token in special_tokens]
    texts = [part.decode("utf-8", "surrogateescape") for part in (*parts, data)]
    *each, whole = [tokens_of(text, special_tokens) for text in texts]
    assert list(chain.from_iterable(each)) == whole


encoded_specials = all_specials.map(lambda tokens: [token.encode() for token in tokens])


@given(awkward_text)
def test_at_a_boundary_or_before_a_space_any_text_that_is_not_open_can_be_cut(text):
    places = {match.start() for match in BOUNDARY.finditer(text)}
    places |= {at for at, one in enumerate(text) if one == " " and not is_open(text[:at])}
    for place in places:
        parts = PRETOKEN.findall(text[:place]) + PRETOKEN.findall(text[place:])
        assert parts == PRETOKEN.findall(text)


@pytest.mark.parametrize("text", ["", " ", "a\n", "a\u3000", "a\xa0", "a\x1f", "a\x85"])
def test_text_that_ends_in_white_space_is_open(text):
    assert is_open(text)
    assert not is_open(text + "a")


@pytest.mark.parametrize("window_bytes", range(9, 17))
@pytest.mark.parametrize(
    "text", ["a" + "\u4e2d" * 12, "a\u3000 b" * 6, "\u3000" * 9 + " b", "\U0001f642\xa0 " * 6]
)
def test_a_window_that_begins_or_ends_in_a_character_changes_no_cut(
    text, window_bytes, monkeypatch
):
    monkeypatch.setattr(boundaries, "_WINDOW_BYTES", window_bytes)
    data = text.encode()
    for at in range(len(data) + 1):
        place = next_boundary(data, at, [])
        assert_cut_well(data, [data[:place], data[place:]], [])


@given(awkward_bytes, encoded_specials, st.integers(1, 20))
def test_spans_are_the_whole_and_change_no_token(data, specials, span_bytes):
    parts = [data[a:b] for a, b in spans(data, Span(0, len(data)), span_bytes, specials)]
    assert all(parts)
    assert_cut_well(data, parts, specials)


def test_the_next_boundary_is_near():
    data = ("word " * 10_000 + EOT + "\u4e2d\u6587\u3002" * 10_000).encode()
    places = [next_boundary(data, at, [EOT.encode()]) - at for at in range(1, len(data) - 20, 997)]
    assert max(places) < 16
