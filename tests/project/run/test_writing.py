"""Text from a model: streamed in whole characters, side by side or in turns."""

import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cs_basics.generate import Sampling, generate
from cs_basics.run.writing import TextStream, generate_texts
from cs_basics.tokenizer import Tokenizer
from cs_basics.transformer import TransformerLM

BOLD = Sampling(temperature=1.3)
PROMPTS = [[65], [66, 67]]


class Own(TransformerLM):
    """A model of which the fast generation knows nothing."""


@pytest.fixture(params=[TransformerLM, Own])
def model(request):
    torch.manual_seed(0)
    return request.param(128, 32, 32, 1, 4, 64)  # ASCII


TOKENIZER = Tokenizer({i: bytes([i]) for i in range(256)}, [])


def streamed(ids):
    stream = TextStream(TOKENIZER)
    return "".join([*map(stream.push, ids), stream.close()])


@given(st.lists(st.integers(0, 255), max_size=12), st.integers(0, 12))
def test_streamed_bytes_of_any_kind_are_the_decoded_text(ids, num_first):
    assert streamed(ids) == TOKENIZER.decode(ids)
    # What has been given out does not depend on what follows.
    stream = TextStream(TOKENIZER)
    assert TOKENIZER.decode(ids).startswith("".join(map(stream.push, ids[:num_first])))


def test_an_id_without_a_token_is_written_and_does_not_end_the_text():
    assert streamed([97, 300, 98]) == "a\ufffdb"


def test_the_time_of_a_token_does_not_grow_with_the_bytes_before_it_that_are_no_text():
    started = time.process_time()
    assert streamed([0xFF] * 20_000) == "\ufffd" * 20_000
    assert time.process_time() - started < 1  # Decoded anew at each token, 10 s.


def test_every_text_is_what_generate_writes_with_its_own_seed(model):
    texts = ["", ""]
    for row, piece in generate_texts(model, TOKENIZER, PROMPTS, 30, BOLD, seed=3):
        assert piece
        texts[row] += piece
    alone = (generate(model, ids, 30, BOLD, seed=3 + row) for row, ids in enumerate(PROMPTS))
    assert texts == [bytes(ids).decode() for ids in alone]
