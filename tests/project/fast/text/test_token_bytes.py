"""Many ids to bytes at once: one by one is the same, for tokens of any length."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_basics.fast.text import tokenizer as tokenizer_module
from cs_basics.fast.text.tokenizer import FastTokenizer

# Lengths around one and two words of eight bytes; ids with gaps.
tokens = st.integers(0, 26).flatmap(lambda size: st.binary(min_size=size, max_size=size))
vocabs = st.dictionaries(st.integers(0, 40), tokens, min_size=1, max_size=20)


@given(vocabs, st.data())
def test_bytes_of_many_ids_are_those_of_each(vocab, data):
    tokenizer = FastTokenizer(vocab, [])
    ids = data.draw(st.lists(st.sampled_from(sorted(vocab)), max_size=60))
    expected = b"".join(vocab[token_id] for token_id in ids)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_module, "DECODED_AT_ONCE", data.draw(st.integers(1, 9)))
        patch.setattr(tokenizer_module, "MIN_ARRAY_LENGTH", 0)
        for given_ids in (ids, tuple(ids), iter(ids), np.array(ids, np.uint16), np.array(ids, int)):
            assert tokenizer.decode_bytes(given_ids) == expected


@pytest.mark.parametrize("unknown", [-1, 1, 3, 2**40, 2**70, -(2**70)])
@pytest.mark.parametrize("num_ids", [1, 200])
def test_an_unknown_id_is_named(unknown, num_ids):
    tokenizer = FastTokenizer({0: b"a", 2: b"b"}, [])
    ids = [0] * (num_ids - 1) + [unknown]
    for given_ids in (ids, iter(ids)):
        with pytest.raises(ValueError, match=f"token id {unknown} is not in the vocabulary of 3"):
            tokenizer.decode_bytes(given_ids)
    if abs(unknown) < 2**60:
        with pytest.raises(ValueError, match=f"token id {unknown} is not in"):
            tokenizer.decode_bytes(np.array(ids))


def test_numbers_that_are_no_integers_are_refused():
    tokenizer = FastTokenizer({0: b"a", 1: b"b"}, [])
    with pytest.raises(TypeError):
        tokenizer.decode_bytes([0.5] * 100)
