"""Text from a model: streamed, ended before stop strings, side by side or in turns."""

import pytest
import torch

from cs_basics.generate import Sampling, generate
from cs_basics.run.writing import generate_texts
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


def bytes_tokenizer():
    return Tokenizer({i: bytes([i]) for i in range(256)}, [])


def test_texts_are_streamed_and_end_before_their_stop_strings(model):
    tokenizer = bytes_tokenizer()

    def texts(**settings):
        found = ["", ""]
        for row, piece in generate_texts(model, tokenizer, PROMPTS, 60, BOLD, seed=1, **settings):
            assert piece
            found[row] += piece
        return found

    free = texts()
    assert [len(text) for text in free] == [60, 60]
    stop = free[0][20:24]
    stopped = texts(stop_strings=["never there", stop])
    assert stopped[0] == free[0][: free[0].index(stop)]
    assert stopped[1] == free[1].partition(stop)[0]


def test_every_text_is_what_generate_writes_with_its_own_seed(model):
    texts = ["", ""]
    for row, piece in generate_texts(model, bytes_tokenizer(), PROMPTS, 30, BOLD, seed=3):
        texts[row] += piece
    alone = (generate(model, ids, 30, BOLD, seed=3 + row) for row, ids in enumerate(PROMPTS))
    assert texts == [bytes(ids).decode() for ids in alone]
