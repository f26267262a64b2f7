"""Pre-tokens: nothing is lost, and however a text is cut, the same are found."""

import time
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_basics.pretokenize import (
    PRETOKEN,
    check_special_tokens,
    count_pretokens,
    independent_chunks,
    special_pattern,
    text_to_bytes,
)

EOT = "<|endoftext|>"
SPECIALS = [EOT, EOT + EOT, "aa", "aab", " \n", "'l", "a b"]
# What the pattern treats differently, and what special tokens are made of.
AWKWARD = ["a", "b", "l", "'", "'ll", "'s", " ", "  ", "\n", "\r\n", "\t", "1", "!", "\xe9", "\x85"]
AWKWARD += ["\u4e2d", "\u3002", "\u3000", "\u0301", "\U0001f642", "\udc80", "\x1c"]
AWKWARD += [EOT, "<|endof", "text|>", "aa"]

awkward_text = st.lists(st.sampled_from(AWKWARD), max_size=30).map("".join) | st.text(max_size=20)
special_lists = st.lists(st.sampled_from(SPECIALS), unique=True)


def tokens(text, special_tokens):
    """Special tokens and pre-tokens of a text, in order: the definition."""
    pattern = special_pattern(special_tokens)
    found = []
    for index, part in enumerate(pattern.split(text)):
        found += [part] if index % 2 else PRETOKEN.findall(part)
    return found


def cut_at(text, cuts):
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("it's we'll", ["it", "'s", " we", "'ll"]),
        ("a  b", ["a", " ", " b"]),
        ("end \r\n\r\n", ["end", " \r\n\r\n"]),
        ("x\r\ny", ["x", "\r", "\n", "y"]),
        ("in 1984!?", ["in", " 1984", "!?"]),
        ("\u00e9t\u00e9 \u4e2d\u6587\u3002", ["\u00e9t\u00e9", " \u4e2d\u6587", "\u3002"]),
    ],
)
def test_pattern_splits_as_gpt2_does(text, expected):
    assert PRETOKEN.findall(text) == expected


@given(awkward_text)
def test_pattern_covers_every_character(text):
    assert "".join(PRETOKEN.findall(text)) == text


@given(awkward_text, special_lists, st.lists(st.integers(0, 200)))
def test_blocks_have_the_pieces_of_the_whole_text_however_it_is_cut(text, special_tokens, cuts):
    regrouped = list(independent_chunks(cut_at(text, cuts), special_tokens))
    assert "".join(regrouped) == text
    found = [token for chunk in regrouped for token in tokens(chunk, special_tokens)]
    assert found == tokens(text, special_tokens)


@given(awkward_text, special_lists)
def test_new_chunks_of_single_characters_have_the_pieces_of_the_whole_text(text, special_tokens):
    found = [
        token
        for chunk in independent_chunks(["", *text, ""], special_tokens)
        for token in tokens(chunk, special_tokens)
    ]
    assert found == tokens(text, special_tokens)


@given(awkward_text, special_lists, st.integers(0, 60))
def test_a_new_chunk_is_final_whatever_follows(text, special_tokens, length):
    head = text[:length]
    settled = list(independent_chunks([head, ""], special_tokens))[:-1]
    found = [token for chunk in settled for token in tokens(chunk, special_tokens)]
    assert found == tokens(text, special_tokens)[: len(found)]


@pytest.mark.parametrize(
    ("text", "special_tokens"),
    [
        ("x a b y a b", ["a b"]),
        ("1a1b1 a1b", ["a1b"]),
        ("aab aab", ["aa", "aab c"]),
        ("aaaaa", ["aa"]),
        ("we'll 'l l'", ["'l"]),
        ("a \n\r\n  b \n", [" \n"]),
        ("a'll 're\u3000 \u3000b", []),
    ],
)
def test_new_chunks_are_right_for_every_way_to_cut_in_three(text, special_tokens):
    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            chunks = [text[:first], text[first:second], text[second:]]
            regrouped = independent_chunks(chunks, special_tokens)
            found = [token for chunk in regrouped for token in tokens(chunk, special_tokens)]
            assert found == tokens(text, special_tokens), chunks


def test_new_chunks_arrive_as_soon_as_they_are_certain():
    drawn = 0

    def endless():
        nonlocal drawn
        while True:
            drawn += 1
            yield "w" if drawn % 5 else " "

    regrouped = independent_chunks(endless(), [EOT])
    for _ in range(1000):
        before = drawn
        next(regrouped)
        assert drawn - before < 64


def test_chunks_of_bytes_are_refused():
    with pytest.raises(TypeError):
        list(independent_chunks([b"abc"], []))


@given(awkward_text, special_lists)
def test_counts_are_of_all_tokens_that_are_not_special(text, special_tokens):
    expected = Counter(
        text_to_bytes(token)
        for token in tokens(text, special_tokens)
        if token not in special_tokens
    )
    assert sum(count_pretokens(text, special_tokens).values()) == sum(expected.values())
    if text_to_bytes(text).decode("utf-8", "surrogateescape") == text:
        assert count_pretokens(text, special_tokens) == expected


def test_of_overlapping_special_tokens_the_longest_wins():
    assert tokens("xaab aa", ["aa", "aab"]) == ["x", "aab", " ", "aa"]


def test_counts_keep_line_ends_and_invalid_bytes():
    text = b"a\r\nb\xff\xfe \xc3\xa9\xc3".decode("utf-8", "surrogateescape")
    assert count_pretokens(text, []) == {
        b"a": 1, b"\r": 1, b"\n": 1, b"b": 1, b"\xff\xfe": 1, b" \xc3\xa9": 1, b"\xc3": 1
    }  # fmt: skip


def test_a_long_special_token_is_found_at_once():
    started = time.monotonic()
    text = "b" * 1000 + "a" * 9_999 + " b" + "a" * 10_000
    assert special_pattern(["a" * 10_000]).split(text)[1:] == ["a" * 10_000, ""]
    # Looking at every place for every letter takes minutes.
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("special_tokens", "error"),
    [
        ([""], ValueError),
        (["a", "b", "a"], ValueError),
        (["\udc80"], ValueError),
        ("abc", TypeError),
        ([b"abc"], TypeError),
    ],
)
def test_impossible_special_tokens_are_refused(special_tokens, error):
    with pytest.raises(error):
        check_special_tokens(special_tokens)
