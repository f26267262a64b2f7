"""Boundaries: on both sides of one the tokens are those of the whole text."""

from itertools import chain

import pytest
from awkward import EOT, awkward_text, tokens_of
from hypothesis import given

from cs_basics.fast.text import boundaries
from cs_basics.fast.text.boundaries import BOUNDARY, is_open, next_boundary
from cs_basics.pretokenize import PRETOKEN


def assert_cut_well(data, parts, special_tokens):
    """Demand that parts are the whole and their tokens those of the whole."""
    assert b"".join(parts) == data
    special_tokens = [token.decode() for token in special_tokens]
    texts = [part.decode("utf-8", "surrogateescape") for part in (*parts, data)]
    *each, whole = [tokens_of(text, special_tokens) for text in texts]
    assert list(chain.from_iterable(each)) == whole


@given(awkward_text)
def test_at_a_boundary_or_before_a_space_any_text_that_is_not_open_can_be_cut(text):
    places = {match.start() for match in BOUNDARY.finditer(text)}
    places |= {at for at, one in enumerate(text) if one == " " and not is_open(text[:at])}
    for place in places:
        parts = PRETOKEN.findall(text[:place]) + PRETOKEN.findall(text[place:])
        assert parts == PRETOKEN.findall(text)


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


def test_the_next_boundary_is_near():
    data = ("word " * 10_000 + EOT + "\u4e2d\u6587\u3002" * 10_000).encode()
    places = [next_boundary(data, at, [EOT.encode()]) - at for at in range(1, len(data) - 20, 997)]
    assert max(places) < 16
