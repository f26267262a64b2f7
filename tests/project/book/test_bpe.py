"""Byte-pair encoding: the book's way agrees with counting everything anew, and keeps the rules."""

import logging
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import text as oracles

from cs_basics.bpe import learn_merges, merge_by_rank, merge_pair, train_bpe
from cs_basics.fast import accelerate

EOT = "<|endoftext|>"
# Few letters make long merges and many ties; 0 and 255 are the ends of the order of bytes.
words = st.lists(st.sampled_from([0, 97, 98, 99, 255]), min_size=1, max_size=12).map(bytes)
corpora = st.dictionaries(words, st.integers(1, 5), max_size=12)

both = pytest.mark.parametrize("train", [train_bpe, accelerate(train_bpe)], ids=["book", "fast"])


def recounted(corpus, num_merges):
    """Merges learned by counting all pairs anew before each."""
    counts = {word.decode("utf-8", "surrogateescape"): count for word, count in corpus.items()}
    return oracles.train_bpe(b"", 256 + num_merges, [], counts=Counter(counts))


@given(corpora, st.integers(0, 60))
def test_learned_merges_are_those_of_recounting(corpus, num_merges):
    assert learn_merges(corpus, num_merges) == recounted(corpus, num_merges)


def test_learned_merges_are_those_of_recounting_on_many_words():
    draw = random.Random(0)
    corpus = {bytes(draw.choices(b"abcdefgh", k=draw.randint(1, 9))): i % 7 + 1 for i in range(500)}
    merges = learn_merges(corpus, 150)
    assert len(merges) == 150
    assert merges == recounted(corpus, 150)


def test_merges_of_the_textbook_example():
    corpus = {b"low": 5, b"lower": 2, b"widest": 3, b"newest": 6}
    expected = [b"s t", b"e st", b"o w", b"l ow", b"w est", b"n e"]
    assert learn_merges(corpus, 6) == [tuple(pair.split()) for pair in expected]


@pytest.mark.parametrize(
    ("corpus", "first"),
    [
        ({b"ab": 1, b"ba": 1}, (b"b", b"a")),
        ({b"ax": 2, b"ay": 2}, (b"a", b"y")),
        ({b"\x7fa": 1, b"\xffa": 1, b"\x00\xff": 1}, (b"\xff", b"a")),
    ],
)
def test_ties_go_to_the_greater_pair(corpus, first):
    assert learn_merges(corpus, 1) == [first]


@pytest.mark.parametrize(
    ("tied", "second"),
    [
        ({b"aby": 2, b"ay": 2}, (b"ab", b"y")),
        ({b"xab": 2, b"xa": 2}, (b"x", b"ab")),
        ({b"abc": 2, b"az": 2}, (b"ab", b"c")),  # although the string az is greater than abc
    ],
)
def test_in_a_tie_an_extension_is_greater_than_what_it_extends(tied, second):
    assert learn_merges({b"ab": 9, **tied}, 2) == [(b"a", b"b"), second]


def test_overlapping_pairs_are_counted_rightly():
    # aaaa holds aa three times, against two of ba; then it is aa aa, so that ba wins.
    assert learn_merges({b"aaaa": 1, b"ba": 2}, 3) == [(b"a", b"a"), (b"b", b"a"), (b"aa", b"aa")]
    assert merge_pair([b"a"] * 5, (b"a", b"a")) == [b"aa", b"aa", b"a"]


def test_lowest_rank_is_applied_first_and_from_the_left():
    assert merge_by_rank(b"abc", {(b"b", b"c"): 0, (b"a", b"b"): 1}) == [b"a", b"bc"]
    assert merge_by_rank(b"aaa", {(b"a", b"a"): 0}) == [b"aa", b"a"]
    assert merge_by_rank(b"abab", {(b"a", b"b"): 0, (b"ab", b"ab"): 1}) == [b"abab"]
    assert merge_by_rank(b"", {}) == []


@both
def test_ids_are_bytes_then_merges_then_special_tokens(train, tmp_path):
    path = tmp_path / "text"
    path.write_text("low low lower" * 5)
    vocab, merges = train(path, 262, [EOT, "<pad>"])
    assert [vocab[i] for i in range(256)] == [bytes([i]) for i in range(256)]
    assert [vocab[256 + i] for i in range(4)] == [left + right for left, right in merges]
    assert [vocab[260], vocab[261]] == [EOT.encode(), b"<pad>"]
    assert len(vocab) == 262


@both
def test_special_token_of_one_byte_keeps_the_id_of_the_byte(train, tmp_path):
    path = tmp_path / "text"
    path.write_text("ab\nab\n")
    vocab, merges = train(path, 257, ["\n"])
    assert merges == [(b"a", b"b")]
    assert len(set(vocab.values())) == len(vocab) == 257


@both
def test_special_tokens_are_never_learned_from(train, tmp_path):
    path = tmp_path / "text"
    path.write_text(f"ab{EOT}ab{EOT}" * 10)
    vocab, _ = train(path, 258, [EOT])
    assert list(vocab.values())[256:] == [b"ab", EOT.encode()]


@both
def test_too_few_pairs_give_a_smaller_vocabulary_and_a_warning(train, tmp_path, caplog):
    path = tmp_path / "text"
    path.write_text("abc abc")
    with caplog.at_level(logging.WARNING):
        vocab, merges = train(path, 1000, [EOT])
    # abc and " abc" each become one token.
    assert len(merges) == 3
    assert len(vocab) == 260
    assert "the vocabulary has 260 tokens, not 1000" in caplog.text


@both
def test_only_special_tokens_leave_the_bytes(train, tmp_path):
    path = tmp_path / "text"
    path.write_text(EOT * 3)
    vocab, merges = train(path, 257, [EOT])
    assert (len(vocab), merges) == (257, [])


@both
def test_exact_size_is_not_warned_about(train, tmp_path, caplog):
    path = tmp_path / "text"
    path.write_text("abc abc")
    assert len(train(path, 260, [EOT])[0]) == 260
    assert not caplog.records


@both
@pytest.mark.parametrize(
    ("vocab_size", "special_tokens", "message"),
    [
        (257, [EOT, "<pad>"], "vocab_size=257 .* at least 258"),
        (-1, [], "vocab_size=-1"),
        (300, [EOT, EOT], "more than once"),
        (300, [""], "empty string"),
    ],
)
def test_impossible_requests_are_refused(train, tmp_path, vocab_size, special_tokens, message):
    (tmp_path / "text").write_text("abc")
    with pytest.raises(ValueError, match=message):
        train(tmp_path / "text", vocab_size, special_tokens)


@both
def test_missing_and_empty_files_are_refused(train, tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        train(tmp_path / "missing", 300, [])
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="empty"):
        train(tmp_path / "empty", 300, [])
    with pytest.raises(IsADirectoryError):
        train(tmp_path, 300, [])
