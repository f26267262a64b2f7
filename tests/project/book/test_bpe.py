"""Byte-pair encoding, by the book and fast: merges of counting anew; what cannot be is refused."""

import logging
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import text as oracles

from cs_basics.bpe import learn_merges, learn_merges_naively, train_bpe
from cs_basics.fast import accelerate
from cs_basics.fast.text.train_bpe import learn_merges as learn_with_a_heap

EOT = "<|endoftext|>"
# Few letters make long merges and many ties; 0 and 255 are the ends of the order of bytes.
words = st.lists(st.sampled_from([0, 97, 98, 99, 255]), min_size=1, max_size=12).map(bytes)
corpora = st.dictionaries(words, st.integers(1, 5), max_size=12)

both = pytest.mark.parametrize("train", [train_bpe, accelerate(train_bpe)], ids=["book", "fast"])


@pytest.fixture
def text(tmp_path):
    """Return a function that writes a text and gives its path."""

    def write(content):
        path = tmp_path / "text"
        path.write_text(content)
        return path

    return write


@pytest.mark.parametrize(
    "learn",
    [learn_merges_naively, learn_merges, learn_with_a_heap],
    ids=["the idea", "the book", "fast"],
)
@given(corpus=corpora, num_merges=st.integers(0, 60))
def test_learned_merges_are_those_of_counting_all_pairs_anew(learn, corpus, num_merges):
    counts = {word.decode("utf-8", "surrogateescape"): count for word, count in corpus.items()}
    expected = oracles.train_bpe(b"", 256 + num_merges, [], counts=Counter(counts))
    assert learn(corpus, num_merges) == expected


@both
@pytest.mark.parametrize(("asked", "num_warnings"), [(260, 0), (1000, 1)])
def test_too_few_pairs_give_a_smaller_vocabulary_and_a_warning(
    train, text, caplog, asked, num_warnings
):
    with caplog.at_level(logging.WARNING):
        vocab, merges = train(text("abc abc"), asked, [EOT])
    # abc and " abc" each become one token.
    assert (len(vocab), len(merges)) == (260, 3)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == num_warnings
    assert all(f"the vocabulary has 260 tokens, not {asked}" in line for line in said)


@both
@pytest.mark.parametrize(
    ("vocab_size", "special_tokens", "message"),
    [
        (257, [EOT, "<pad>"], "vocab_size=257 .* at least 258"),
        (300, [EOT, ""], "empty or repeated"),
        (300, [EOT, EOT], "empty or repeated"),
    ],
)
def test_impossible_requests_are_refused(train, text, vocab_size, special_tokens, message):
    with pytest.raises(ValueError, match=message):
        train(text("abc"), vocab_size, special_tokens)


@both
def test_missing_and_empty_files_are_refused(train, text, tmp_path):
    assert train(text(EOT), 257, [EOT])[1] == []
    with pytest.raises(ValueError, match="empty"):
        train(text(""), 300, [])
    with pytest.raises(FileNotFoundError, match="missing"):
        train(tmp_path / "missing", 300, [])
