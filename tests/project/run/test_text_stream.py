"""Text as it arrives: whole characters, and nothing of a stop string."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_basics.run.text_stream import TextStream
from cs_basics.tokenizer import Tokenizer

TOKENIZER = Tokenizer({i: bytes([i]) for i in range(256)}, [])


def stream_text(tokenizer, ids, stop_strings=()):
    """Yield the chunks of text of token ids as they arrive."""
    stream = TextStream(tokenizer, stop_strings)
    for token_id in ids:
        if piece := stream.push(token_id):
            yield piece
        if stream.is_finished:
            return
    if rest := stream.close():
        yield rest


@given(st.lists(st.integers(0, 255), max_size=12), st.integers(0, 12))
def test_streamed_bytes_of_any_kind_are_the_decoded_text(ids, num_first):
    assert "".join(stream_text(TOKENIZER, ids)) == TOKENIZER.decode(ids)
    # What has been given out does not depend on what follows.
    stream = TextStream(TOKENIZER)
    assert TOKENIZER.decode(ids).startswith("".join(map(stream.push, ids[:num_first])))


SHORT = st.text(alphabet="ab\u00e9", min_size=1, max_size=4)


@given(st.text(alphabet="ab\u00e9", max_size=30), st.lists(SHORT, min_size=1, max_size=3))
def test_the_text_ends_before_the_first_stop_string(text, stops):
    ids = TOKENIZER.encode(text)
    asked = []
    pieces = list(stream_text(TOKENIZER, (asked.append(i) or i for i in ids), stops))
    # The stop string that is complete first ends the text; of several, the one that begins first.
    ends = [end for end in range(len(text) + 1) if any(text[:end].endswith(s) for s in stops)]
    expected = text
    if ends:
        expected = text[
            : min(text[: ends[0]].find(s) % (len(text) + 1) for s in stops if s in text[: ends[0]])
        ]
        assert len(asked) == len(text[: ends[0]].encode())
    assert "".join(pieces) == expected


def test_what_cannot_become_a_stop_string_is_given_out_at_once():
    stream = TextStream(TOKENIZER, ["END"])
    given_out = [stream.push(ord(character)) for character in "xENEx"]
    assert given_out == ["x", "", "", "EN", "Ex"]


def test_an_id_without_a_token_is_written_and_does_not_end_the_text():
    assert "".join(stream_text(TOKENIZER, [97, 300, 98])) == "a\ufffdb"


def test_the_time_of_a_token_does_not_grow_with_the_bytes_before_it_that_are_no_text():
    stream, started = TextStream(TOKENIZER), time.process_time()
    assert "".join(stream.push(0xFF) for _ in range(20_000)) == "\ufffd" * 20_000
    assert time.process_time() - started < 1  # Decoded anew at each token, 10 s.


def test_an_empty_stop_string_is_refused():
    with pytest.raises(ValueError, match="stop string is empty"):
        TextStream(TOKENIZER, ["a", ""])
