"""The page's model of every form and its tokenizer, in a real browser: PyTorch's and Python's."""

import json

import numpy as np
import pytest
import torch
from awkward import AWKWARD
from page_cases import make_run, open_page
from small_models import FORMS

from cs_basics.interop.page_data import rounded_to_int8
from cs_basics.settings.run import END_OF_TEXT
from cs_basics.tokenizer import Tokenizer

SPECIALS = [END_OF_TEXT, END_OF_TEXT * 2, "<a b>\n", "\u4e2d\u6587", "'l", "#-", "</script><b>"]


@pytest.fixture
def opened(chromium, bpe, tmp_path):
    """Open the page of a model of some form; return its run."""

    def visit_page(**choices):
        run = make_run(tmp_path / "run", Tokenizer(*bpe, SPECIALS), **choices)
        open_page(chromium, run, tmp_path / "page.html")
        return run

    return visit_page


def some_ids(vocab_size, count, longest):
    random = np.random.default_rng(5)
    lengths = random.integers(1, longest, count)
    return [random.integers(0, vocab_size, length).tolist() for length in lengths]


@pytest.mark.parametrize("form", FORMS)
def test_logits_are_those_of_the_rounded_model(chromium, opened, form):
    model = opened(**FORMS[form]).load_model()
    rounded = rounded_to_int8(exact := model.state_dict())
    for name, weight in exact.items():
        assert (rounded[name] - weight).abs().max() <= weight.abs().max() / 250, name
    model.load_state_dict(rounded)
    ask = "return glass.engine.ask('logits', { text: arguments[0] }).then((found) => [...found])"
    for text in some_ids(model.vocab_size, 6, 40):
        found = chromium.run(ask, text)
        with torch.no_grad():
            expected = model(torch.tensor([text]))[0, -1]
        np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0, err_msg=str(text))


def test_tokens_are_those_of_the_tokenizer(chromium, opened):
    tokenizer = opened().load_tokenizer(is_fast=False)
    every = "".join(chr(code) for code in range(0x11FFF) if not 0xD800 <= code < 0xE000)
    random = np.random.default_rng(1)
    texts = ["".join(random.choice(AWKWARD + SPECIALS, 40)) for _ in range(200)]
    texts += [every, every[::-1], " ".join(every), "a\x1fb\x85 c\u2028\ufeff d", "", "\r\n  \n x"]
    script = "return JSON.stringify(arguments[0].map((text) => glass.tokenizer.encode(text)))"
    found = json.loads(chromium.run(script, texts))
    for text, ids in zip(texts, found, strict=True):
        assert ids == tokenizer.encode(text), text[:60]
    decode = "return JSON.stringify(arguments[0].map((ids) => glass.tokenizer.decode(ids)))"
    some = some_ids(tokenizer.vocab_size, 50, 60)
    assert json.loads(chromium.run(decode, some)) == [tokenizer.decode(ids) for ids in some]
