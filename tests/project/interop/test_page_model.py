"""The page's model in a real browser: the logits, texts and tokens of PyTorch and Python."""

import copy
import json

import numpy as np
import pytest
import torch
from awkward import AWKWARD
from page_cases import FORMS, ask, make_run, open_page, without

from cs_basics.bpe import train_bpe
from cs_basics.fast.decoding import generate
from cs_basics.generate import GREEDY, Sampling
from cs_basics.interop.page_data import rounded_to_int8
from cs_basics.interop.page_file import write_page
from cs_basics.run.config import END_OF_TEXT
from cs_basics.tokenizer import Tokenizer

SPECIALS = [END_OF_TEXT, END_OF_TEXT * 2, "<a b>\n", "\u4e2d\u6587", "'l", "#-", "</script><b>"]


@pytest.fixture(scope="module")
def tokenizer(texts):
    vocab, merges = train_bpe(texts[0], 400, [END_OF_TEXT])
    return Tokenizer(vocab, merges, SPECIALS)


@pytest.fixture(scope="module")
def page(chromium, tokenizer, tmp_path_factory):
    """Open the page of a model of some form; return the model as the page has it."""

    def opened(is_exact=False, **choices):
        folder = tmp_path_factory.mktemp("page")
        run = make_run(folder / "run", tokenizer, **choices)
        write_page(run, folder / "page.html", is_exact=is_exact)
        open_page(chromium, folder / "page.html")
        model = run.load_model()
        if not is_exact:
            model.load_state_dict(rounded_to_int8(model.state_dict()))
        return model

    return opened


def prompts(vocab_size, count, longest):
    random = np.random.default_rng(5)
    lengths = random.integers(1, longest, count)
    return [random.integers(0, vocab_size, length).tolist() for length in lengths]


def assert_same_logits(chromium, model, tolerance, count, longest=40, operations=None):
    for text in prompts(model.vocab_size, count, longest):
        request = {"operations": operations} if operations else {}
        found, _ = ask(chromium, "logits", text=text, **request)
        with torch.no_grad():
            expected = model(torch.tensor([text]))[0, -1]
        np.testing.assert_allclose(found, expected, atol=tolerance, rtol=0, err_msg=str(text))


@pytest.mark.parametrize("form", FORMS)
def test_logits_are_those_of_the_rounded_model(chromium, page, form):
    assert_same_logits(chromium, page(**FORMS[form]), 1e-4, 6)


def test_exact_logits_are_those_of_the_model(chromium, page):
    model = page(is_exact=True)
    assert_same_logits(chromium, model, 1e-4, 20)


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=0.8, top_k=30, top_p=0.9)])
def test_texts_are_those_of_generate_token_by_token(chromium, page, sampling):
    model = page(is_exact=True)
    prompt = prompts(model.vocab_size, 1, 20)[0]
    settings = {name: getattr(sampling, name) for name in ("temperature", "top_k", "top_p")}
    request = {"maxTokens": 200, "sampling": settings, "seed": 2**31 + 5, "numDrawn": 0}
    reason, news = ask(chromium, "write", text=prompt, stopId=-1, **request)
    expected = list(generate(model, prompt, 200, sampling, seed=2**31 + 5))
    assert [one["id"] for one in news if one] == expected
    assert reason == "length"


def test_tokens_are_those_of_the_tokenizer(chromium, page, tokenizer):
    page()
    every = "".join(chr(code) for code in range(0x11FFF) if not 0xD800 <= code < 0xE000)
    random = np.random.default_rng(1)
    made = ["".join(random.choice(AWKWARD + SPECIALS, 40)) for _ in range(200)]
    texts = [
        *made,
        every,
        every[::-1],
        " ".join(every),
        "a\x1fb\x85 c\u2028\ufeff d",
        "",
        "\r\n  \n x",
    ]
    script = "return JSON.stringify(arguments[0].map((text) => glass.tokenizer.encode(text)))"
    found = json.loads(chromium.run(script, texts))
    for text, ids in zip(texts, found, strict=True):
        assert ids == tokenizer.encode(text), text[:60]
    decode = "return JSON.stringify(arguments[0].map((ids) => glass.tokenizer.decode(ids)))"
    some = prompts(tokenizer.vocab_size, 50, 60)
    assert json.loads(chromium.run(decode, some)) == [tokenizer.decode(ids) for ids in some]


@pytest.mark.parametrize("form", ["book", "grouped", "post", "sandwich"])
def test_what_is_switched_off_is_off_in_pytorch_too(chromium, page, form):
    choices = FORMS[form]
    norms = {"sandwich": ["ln1", "ln1_after", "ln2", "ln2_after"]}.get(form, ["ln1", "ln2"])
    names = [f"layers.1.{norm}" for norm in norms]
    names += ["layers.0.attn.heads.0", "layers.1.attn.heads.3", "layers.0.ffn"]
    names += [] if form == "post" else ["ln_final", "layers.1.attn.rope"]
    intact = page(**choices)
    state = {name: value.clone() for name, value in intact.state_dict().items()}
    for name in names:
        model = page_model(intact, state)
        without(model, name)
        assert_same_logits(chromium, model, 1e-3, 2, operations={"off": [name], "scale": {}})
        assert differs(model, page_model(intact, state)), name


def page_model(model, state):
    """Return a copy of a model with these weights."""
    copied = copy.deepcopy(model)
    copied.load_state_dict(state)
    return copied


def differs(model, other):
    text = torch.tensor([[1, 5, 9, 2, 40, 77]])
    return bool((model(text) - other(text)).abs().max() > 1e-2)


def test_a_scaled_layer_is_scaled_in_pytorch_too(chromium, page):
    model = page()
    with torch.no_grad():
        for part in (model.layers[1].attn.output_proj, model.layers[1].ffn.w2):
            part.weight *= 0.25
    operations = {"off": [], "scale": {"layers.1": 0.25}}
    assert_same_logits(chromium, model, 1e-3, 3, operations=operations)


def test_what_is_inside_is_what_pytorch_computes(chromium, page):
    model = page()
    text, position = [7, 300, 41, 99, 12, 256, 3], 4
    found, _ = ask(chromium, "look", text=text, position=position)
    streams = {"embedding": model.token_embeddings(torch.tensor([text]))}
    for layer, block in enumerate(model.layers):
        streams[f"layers.{layer}.after_ffn"] = block([*streams.values()][-1])
    for name, stream in streams.items():
        at = stream[0, position].detach()
        place = next(place for place in found["places"] if place["name"] == name)
        assert place["rms"] == pytest.approx(at.square().mean().sqrt().item(), rel=1e-4)
        lens = next(lens for lens in found["lens"] if lens["name"] == name)
        expected = torch.softmax(model.lm_head(model.ln_final(at)), dim=-1)
        assert [id for id, _ in lens["likeliest"]] == expected.topk(5).indices.tolist()
        assert lens["probability"] == pytest.approx(expected[text[position + 1]].item(), rel=1e-3)
    units = found["units"]
    hidden = model.layers[0].ln2(
        streams["embedding"] + model.layers[0].attn(model.layers[0].ln1(streams["embedding"]))
    )[0, position]
    ffn = model.layers[0].ffn
    gate, up = ffn.w1(hidden), ffn.w3(hidden)
    activations = gate * torch.sigmoid(gate) * up
    for unit in units:
        if unit["layer"] == 0:
            assert unit["activation"] == pytest.approx(activations[unit["unit"]].item(), rel=1e-3)
    assert any(unit["layer"] == 0 for unit in units)
    assert len(units) == 10
