"""Counting by segments: the same as in the book, for any text and any special tokens."""

from collections import Counter

import pytest
from awkward import AWKWARD, EOT, SPECIALS, all_specials, awkward_bytes, closed_specials
from hypothesis import given
from hypothesis import strategies as st

from cs_basics.fast.text import blocks as block_module
from cs_basics.fast.text import counting, segments
from cs_basics.fast.text.counting import SegmentCounter, count_pretokens_of_file
from cs_basics.pretokenize import count_pretokens


def in_the_book(blocks, special_tokens):
    counts = Counter()
    for data in blocks:
        counts.update(count_pretokens(data.decode("utf-8", "surrogateescape"), special_tokens))
    return counts


@pytest.mark.parametrize("max_texts", [3, segments.MAX_TEXTS])
@given(st.lists(awkward_bytes, max_size=6), closed_specials | all_specials)
def test_counting_by_segments_agrees_with_the_book(max_texts, blocks, special_tokens):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "MAX_TEXTS", max_texts)
        counter = SegmentCounter(special_tokens)
        for data in blocks * 2:
            counter.count(data)
        assert counter.pretokens() == in_the_book(blocks * 2, special_tokens)


@pytest.mark.parametrize("chunk_bytes", [64, 1000])
@pytest.mark.parametrize("special_tokens", [[], [EOT], SPECIALS])
def test_counts_do_not_depend_on_workers_or_blocks(
    tmp_path, monkeypatch, special_tokens, chunk_bytes
):
    path = tmp_path / "text"
    words = "".join(AWKWARD * 3).encode("utf-8", "replace") + b"\xff\xe4 caf\xc3\xa9 \r\n"
    path.write_bytes(b"".join(words[i % 50 :] for i in range(50)))
    whole = in_the_book([path.read_bytes()], special_tokens)
    monkeypatch.setattr(block_module, "CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(counting, "MIN_BLOCK_BYTES", 3 * chunk_bytes)
    monkeypatch.setattr(counting, "MAX_BLOCK_BYTES", 3 * chunk_bytes)
    for workers in (1, 3):
        assert count_pretokens_of_file(path, special_tokens, workers) == whole
