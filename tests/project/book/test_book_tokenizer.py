"""The tokenizer: any text there and back, by the ids of the definition, and what it refuses."""

import pytest
from awkward import EOT, OPEN, train_on_text

from cs_basics.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return Tokenizer(*train_on_text(tmp_path_factory.mktemp("text")), OPEN)


def test_surrogates_are_the_bytes_that_they_stand_for_or_refused(tokenizer):
    assert tokenizer.encode("\udcff\udcc3") == [0xFF, 0xC3]
    with pytest.raises(ValueError, match="surrogates not allowed"):
        tokenizer.encode("a\ud83d")


def test_of_repeated_merges_the_first_counts_and_of_equal_tokens_the_lowest_id():
    vocab = {0: b"a", 1: b"b", 2: b"c", 3: b"ab", 4: b"bc", 5: b"a"}
    merges = [(b"a", b"b"), (b"b", b"c"), (b"a", b"b")]
    tokenizer = Tokenizer(vocab, merges, ["<new>"])
    assert tokenizer.encode("abc a".replace(" ", "<new>")) == [3, 2, 6, 0]
    assert tokenizer.decode([0, 5, 6]) == "aa<new>"
    assert (len(vocab), tokenizer.vocab_size) == (6, 7)


def test_unfit_vocabularies_are_refused():
    vocab = {0: b"a", 1: b"b"}
    with pytest.raises(ValueError, match="needs b'ab'"):
        Tokenizer(vocab, [(b"a", b"b")])
    with pytest.raises(ValueError, match="needs b'c'"):
        Tokenizer(vocab, [(b"a", b"c")])
    with pytest.raises(ValueError, match="negative token id -1"):
        Tokenizer({-1: b"a"}, [])
    with pytest.raises(ValueError, match="empty or repeated"):
        Tokenizer(vocab, [], [EOT, EOT])
    with pytest.raises(ValueError, match="surrogates not allowed"):
        Tokenizer(vocab, [], ["\udc80"])
    with pytest.raises(ValueError, match="no token for byte b'c'"):
        Tokenizer(vocab, []).encode("abc")


@pytest.mark.parametrize("token_id", [-1, 10_000])
def test_unknown_ids_are_refused(tokenizer, token_id):
    with pytest.raises(ValueError, match=f"token id {token_id} is not in the vocabulary"):
        tokenizer.decode([token_id])
