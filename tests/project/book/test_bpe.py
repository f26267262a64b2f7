"""Byte-pair encoding: the fast versions agree with the definitions, and the rules are kept."""

import logging
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_basics.bpe import (
    merge_by_rank,
    merge_by_rank_with_heap,
    merge_by_recounting,
    merge_incrementally,
    merge_lowest_first,
    merge_pair,
    train_bpe,
)
from cs_basics.fast.text import counting

EOT = "<|endoftext|>"
# Few letters make long merges and many ties; 0 and 255 are the ends of the order of bytes.
words = st.lists(st.sampled_from([0, 97, 98, 99, 255]), min_size=1, max_size=12).map(bytes)
corpora = st.dictionaries(words, st.integers(1, 5), max_size=12)


@given(corpora, st.integers(0, 60))
def test_incremental_merging_agrees_with_recounting(corpus, num_merges):
    assert merge_incrementally(corpus, num_merges) == merge_by_recounting(corpus, num_merges)


def test_incremental_merging_agrees_with_recounting_on_many_words():
    draw = random.Random(0)
    corpus = {bytes(draw.choices(b"abcdefgh", k=draw.randint(1, 9))): i % 7 + 1 for i in range(500)}
    merges = merge_incrementally(corpus, 150)
    assert len(merges) == 150
    assert merges == merge_by_recounting(corpus, 150)


def test_merges_of_the_textbook_example():
    corpus = {b"low": 5, b"lower": 2, b"widest": 3, b"newest": 6}
    expected = [b"s t", b"e st", b"o w", b"l ow", b"w est", b"n e"]
    assert merge_by_recounting(corpus, 6) == [tuple(pair.split()) for pair in expected]


@pytest.mark.parametrize("learn", [merge_by_recounting, merge_incrementally])
@pytest.mark.parametrize(
    ("corpus", "first"),
    [
        ({b"ab": 1, b"ba": 1}, (b"b", b"a")),
        ({b"ax": 2, b"ay": 2}, (b"a", b"y")),
        ({b"\x7fa": 1, b"\xffa": 1, b"\x00\xff": 1}, (b"\xff", b"a")),
    ],
)
def test_ties_go_to_the_greater_pair(learn, corpus, first):
    assert learn(corpus, 1) == [first]


@pytest.mark.parametrize("learn", [merge_by_recounting, merge_incrementally])
@pytest.mark.parametrize(
    ("tied", "second"),
    [
        ({b"aby": 2, b"ay": 2}, (b"ab", b"y")),
        ({b"xab": 2, b"xa": 2}, (b"x", b"ab")),
        ({b"abc": 2, b"az": 2}, (b"ab", b"c")),  # although the string az is greater than abc
    ],
)
def test_in_a_tie_an_extension_is_greater_than_what_it_extends(learn, tied, second):
    assert learn({b"ab": 9, **tied}, 2) == [(b"a", b"b"), second]


@pytest.mark.parametrize("learn", [merge_by_recounting, merge_incrementally])
def test_overlapping_pairs_are_counted_rightly(learn):
    # aaaa holds aa three times, against two of ba; then it is aa aa, so that ba wins.
    assert learn({b"aaaa": 1, b"ba": 2}, 3) == [(b"a", b"a"), (b"b", b"a"), (b"aa", b"aa")]
    assert merge_pair([b"a"] * 5, (b"a", b"a"), b"aa") == [b"aa", b"aa", b"a"]


def test_ids_are_bytes_then_merges_then_special_tokens(tmp_path):
    path = tmp_path / "text"
    path.write_text("low low lower" * 5)
    vocab, merges = train_bpe(path, 262, [EOT, "<pad>"])
    assert [vocab[i] for i in range(256)] == [bytes([i]) for i in range(256)]
    assert [vocab[256 + i] for i in range(4)] == [left + right for left, right in merges]
    assert [vocab[260], vocab[261]] == [EOT.encode(), b"<pad>"]
    assert len(vocab) == 262


def test_special_token_of_one_byte_keeps_the_id_of_the_byte(tmp_path):
    path = tmp_path / "text"
    path.write_text("ab\nab\n")
    vocab, merges = train_bpe(path, 257, ["\n"])
    assert merges == [(b"a", b"b")]
    assert len(set(vocab.values())) == len(vocab) == 257


def test_special_tokens_are_never_learned_from(tmp_path):
    path = tmp_path / "text"
    path.write_text(f"ab{EOT}ab{EOT}" * 10)
    vocab, _ = train_bpe(path, 258, [EOT])
    assert list(vocab.values())[256:] == [b"ab", EOT.encode()]


def test_too_few_pairs_give_a_smaller_vocabulary_and_a_warning(tmp_path, caplog):
    path = tmp_path / "text"
    path.write_text("abc abc")
    with caplog.at_level(logging.WARNING):
        vocab, merges = train_bpe(path, 1000, [EOT])
    # abc and " abc" each become one token.
    assert len(merges) == 3
    assert len(vocab) == 260
    assert "the vocabulary has 260 tokens, not 1000" in caplog.text


def test_only_special_tokens_leave_the_bytes(tmp_path):
    path = tmp_path / "text"
    path.write_text(EOT * 3)
    vocab, merges = train_bpe(path, 257, [EOT])
    assert (len(vocab), merges) == (257, [])


def test_exact_size_is_not_warned_about(tmp_path, caplog):
    path = tmp_path / "text"
    path.write_text("abc abc")
    assert len(train_bpe(path, 260, [EOT])[0]) == 260
    assert not caplog.records


@pytest.mark.parametrize(
    ("vocab_size", "special_tokens", "message"),
    [
        (257, [EOT, "<pad>"], "vocab_size=257 .* at least 258"),
        (-1, [], "vocab_size=-1"),
        (300, [EOT, EOT], "more than once"),
        (300, [""], "empty string"),
    ],
)
def test_impossible_requests_are_refused(tmp_path, vocab_size, special_tokens, message):
    (tmp_path / "text").write_text("abc")
    with pytest.raises(ValueError, match=message):
        train_bpe(tmp_path / "text", vocab_size, special_tokens)


def test_missing_and_empty_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        train_bpe(tmp_path / "missing", 300, [])
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="empty"):
        train_bpe(tmp_path / "empty", 300, [])


def test_training_is_the_same_with_any_number_of_workers(tmp_path, monkeypatch):
    monkeypatch.setattr(counting, "MAX_BLOCK_BYTES", 10_000)
    draw = random.Random(1)
    path = tmp_path / "text"
    text = " ".join("".join(draw.choices("abcdefg", k=draw.randint(1, 8))) for _ in range(20_000))
    path.write_text(text)
    one = train_bpe(path, 400, [EOT], num_workers=1)
    assert one == train_bpe(path, 400, [EOT], num_workers=2)


def test_progress_of_both_stages_is_reported(tmp_path):
    path = tmp_path / "text"
    path.write_text(" ".join(f"w{i}" for i in range(2000)))
    seen = []
    train_bpe(path, 256 + 100, [], on_progress=seen.append)
    merging = [(report.done, report.total) for report in seen if report.stage == "merging"]
    counting = [(report.done, report.total) for report in seen[: -len(merging)]]
    assert merging == [(64, 100), (100, 100)]
    assert counting[-1] == (path.stat().st_size, path.stat().st_size)
    assert {report.stage for report in seen[: -len(merging)]} == {"counting words"}


def test_vocabulary_of_500_is_learned_in_seconds(tmp_path):
    draw = random.Random(2)
    lexicon = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(1, 9))) for _ in range(4000)]
    (tmp_path / "text").write_text(" ".join(draw.choices(lexicon, k=25_000)))
    started = time.monotonic()
    assert len(train_bpe(tmp_path / "text", 500, [EOT])[0]) == 500
    assert time.monotonic() - started < 2


@given(
    st.lists(st.integers(0, 3), min_size=2, max_size=40),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), unique=True, min_size=4),
    st.data(),
)
def test_fast_ways_apply_merges_as_the_definition_does(ids, pairs, data):
    # Arbitrary products, even inconsistent ones that no training would learn.
    products = data.draw(st.lists(st.integers(0, 3), min_size=len(pairs), max_size=len(pairs)))
    ranks = {pair: rank for rank, pair in enumerate(pairs)}
    plain = merge_by_rank(ids, ranks, products)
    assert merge_by_rank_with_heap(ids, ranks, products) == plain
    assert merge_lowest_first(ids, ranks, products) == plain


def test_lowest_rank_is_applied_first_and_leftmost():
    ranks, products = {(1, 2): 0, (0, 1): 1, (0, 0): 2}, [3, 4, 5]
    assert merge_by_rank([0, 1, 2], ranks, products) == [0, 3]
    assert merge_by_rank([0, 0, 0], ranks, products) == [5, 0]


@pytest.mark.parametrize("merge", [merge_by_rank, merge_by_rank_with_heap, merge_lowest_first])
def test_a_product_whose_pair_has_a_lower_rank_is_merged_before_the_rest(merge):
    # 0 0 becomes 1, and 1 0 comes before the second 0 0.
    assert merge([0, 0, 0, 0], {(1, 0): 0, (0, 0): 1}, [2, 1]) == [2, 0]


def test_heap_skips_what_a_merge_has_made_out_of_date():
    # Once 1 2 has become 3, the waiting merge of 0 1 must not be applied to 0 3.
    ranks, products = {(1, 2): 0, (0, 1): 1, (0, 3): 2}, [3, 4, 5]
    assert merge_by_rank_with_heap([0, 1, 2], ranks, products) == [5]


def test_heap_handles_a_word_of_100_kilobytes_in_seconds():
    ranks, products = {(0, 0): 0, (1, 1): 1, (2, 2): 2}, [1, 2, 3]
    started = time.monotonic()
    assert merge_by_rank_with_heap([0] * 100_000, ranks, products) == [3] * 12_500
    assert time.monotonic() - started < 5
