"""Boundaries: on both sides of one the tokens are those of the whole text."""

from itertools import chain
from pathlib import Path

import pytest
from awkward import EOT, all_specials, awkward_bytes, awkward_text
from hypothesis import given
from hypothesis import strategies as st

from cs_basics.fast.text import boundaries
from cs_basics.fast.text.boundaries import BOUNDARY, Span, is_open, next_boundary, share_of, spans
from cs_basics.pretokenize import PRETOKEN, special_pattern


def tokens_of(data, special_tokens):
    """Special tokens and pre-tokens, in order: the definition."""
    text = data.decode("utf-8", "surrogateescape")
    pattern = special_pattern(special_tokens)
    found = []
    for index, part in enumerate(pattern.split(text)):
        found += [part] if index % 2 else PRETOKEN.findall(part)
    return found


def encoded(special_tokens):
    return [token.encode() for token in special_tokens]


@given(awkward_text)
def test_a_boundary_changes_no_pretoken(text):
    whole = PRETOKEN.findall(text)
    for match in BOUNDARY.finditer(text):
        place = match.start()
        assert PRETOKEN.findall(text[:place]) + PRETOKEN.findall(text[place:]) == whole


@given(awkward_text)
def test_before_a_space_any_text_that_is_not_open_can_be_cut(text):
    whole = PRETOKEN.findall(text)
    for place, character in enumerate(text):
        if character == " " and not is_open(text[:place]):
            assert PRETOKEN.findall(text[:place]) + PRETOKEN.findall(text[place:]) == whole


@pytest.mark.parametrize("text", ["", " ", "a\n", "a\u3000", "a\xa0", "a\x1f", "a\x85"])
def test_text_that_ends_in_white_space_is_open(text):
    assert is_open(text)
    assert not is_open(text + "a")


@given(awkward_bytes, all_specials, st.integers(0, 80), st.integers(9, 30))
def test_next_boundary_of_a_file_changes_no_token(data, special_tokens, at, window_bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boundaries, "_WINDOW_BYTES", window_bytes)
        place = next_boundary(data, at, encoded(special_tokens))
    assert min(at, len(data)) <= place <= len(data)
    parts = tokens_of(data[:place], special_tokens) + tokens_of(data[place:], special_tokens)
    assert parts == tokens_of(data, special_tokens)


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
        parts = tokens_of(data[:place], []) + tokens_of(data[place:], [])
        assert parts == tokens_of(data, [])


@given(awkward_bytes, all_specials, st.integers(1, 20))
def test_spans_are_the_whole_and_change_no_token(data, special_tokens, span_bytes):
    found = list(spans(data, Span(0, len(data)), span_bytes, encoded(special_tokens)))
    parts = [data[start:end] for start, end in found]
    assert b"".join(parts) == data
    assert all(parts)
    each = [token for part in parts for token in tokens_of(part, special_tokens)]
    assert each == tokens_of(data, special_tokens)


@given(awkward_bytes, all_specials, st.integers(1, 5))
def test_shares_are_the_whole_and_change_no_token(data, special_tokens, num_shares):
    shares = [
        share_of(data, rank, num_shares, encoded(special_tokens)) for rank in range(num_shares)
    ]
    parts = [data[start:end] for start, end in shares]
    assert b"".join(parts) == data
    each = [token for part in parts for token in tokens_of(part, special_tokens)]
    assert each == tokens_of(data, special_tokens)


def test_the_next_boundary_is_near():
    data = ("word " * 10_000 + EOT + "\u4e2d\u6587\u3002" * 10_000).encode()
    places = [next_boundary(data, at, [EOT.encode()]) - at for at in range(1, len(data) - 20, 997)]
    assert max(places) < 16


@pytest.mark.parametrize("name", ["books/alice_in_wonderland.txt", "tinystories/valid.txt"])
def test_real_text_is_cut_without_a_change(name):
    path = Path(__file__).parents[5] / "shared" / "data" / name
    if not path.is_file():
        pytest.skip(f"no text at ../shared/data/{name}")
    data = path.read_bytes()[:200_000]
    found = spans(data, Span(0, len(data)), 1000, [EOT.encode()])
    parts = [tokens_of(data[start:end], [EOT]) for start, end in found]
    assert len(parts) > 100
    assert list(chain.from_iterable(parts)) == tokens_of(data, [EOT])
