"""Several texts at once, in fixed shapes and compiled: the tokens are those of the definition."""

import itertools
import logging
from pathlib import Path

import pytest
import torch
from torch import nn

from cs_basics.attention import SlotKVCache
from cs_basics.fast import decoding
from cs_basics.fast.decoding import (
    Decoder,
    RowLinear,
    generate_batch,
    generate_texts,
    with_row_linears,
)
from cs_basics.generate import LIKELIEST, generate, generate_uncached
from cs_basics.run.config import LLAMA, Architecture, Sampling
from cs_basics.run.hardware import reason_not_to_compile
from cs_basics.tokenizer import Tokenizer
from cs_basics.transformer import TransformerLM

ROOT = Path(__file__).parents[3]

PROMPTS = ([1, 2, 3], [7], list(range(20, 31)), [4, 4, 9, 9, 4])
BOLD = Sampling(temperature=1.3)
SETTINGS = {
    "likeliest": LIKELIEST,
    "bold": BOLD,
    "top-k": Sampling(temperature=1.3, top_k=7),
    "top-p": Sampling(temperature=1.3, top_p=0.8),
    "both": Sampling(temperature=1.3, top_k=12, top_p=0.7),
    "penalty": Sampling(temperature=0, repetition_penalty=1.5),
    "penalty, bold": Sampling(temperature=1.3, repetition_penalty=3.0),
    "stop": Sampling(temperature=0, when_full="stop"),
}
ARCHITECTURES = {
    "pre": Architecture(),
    "post": Architecture(placement="post"),
    "sandwich": Architecture(placement="sandwich"),
    "no norm": Architecture(placement="none"),
    "fused": Architecture(fuse_add_norm=True),
    "merged": Architecture(merge_projections=True, norm="rmsnorm-function", fuse_add_norm=True),
    "qk norm": Architecture(qk_norm=True),
    "merged, qk norm": Architecture(merge_projections=True, qk_norm=True),
    "no positions": Architecture(positions="none"),
    "silu, tied": Architecture(ffn="silu", tie_embeddings=True),
}


def sharp_model(architecture=LLAMA, num_layers=2, seed=0):
    torch.manual_seed(seed)
    model = TransformerLM(50, 16, 32, num_layers, 4, 64, architecture=architecture)
    for name, parameter in model.named_parameters():
        if "ln" in name or "norm" in name:  # gains of 1 would hide one that is left out
            nn.init.trunc_normal_(parameter, mean=1.0, std=0.3)
    with torch.no_grad():
        model.lm_head.weight.mul_(8)  # sharp predictions, so that a wrong one shows
    return model


@pytest.fixture(scope="module")
def model():
    return sharp_model()


def texts_of(steps, num_rows):
    """Turn steps into texts; None may only follow the end of a text."""
    texts = [[] for _ in range(num_rows)]
    ended = set()
    for step in steps:
        for row, token in enumerate(step):
            if token is None:
                ended.add(row)
            else:
                assert row not in ended
                texts[row].append(token)
    return texts


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_greedy_tokens_of_a_batch_are_those_without_a_cache(name):
    model = sharp_model(ARCHITECTURES[name])
    # 30 tokens: each row's context fills, at another step than its neighbour's.
    together = texts_of(generate_batch(model, PROMPTS, 30), len(PROMPTS))
    assert len({tuple(text) for text in together}) > 1
    for prompt, text in zip(PROMPTS, together, strict=True):
        assert text == list(generate_uncached(model, prompt, 30))
        assert text == list(generate(model, prompt, 30))


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_gives_the_tokens_of_the_definition(model, name):
    sampling = SETTINGS[name]
    together = texts_of(generate_batch(model, PROMPTS, 24, sampling, seed=5), len(PROMPTS))
    for row, prompt in enumerate(PROMPTS):
        assert together[row] == list(generate_uncached(model, prompt, 24, sampling, seed=5 + row))
        assert together[row] == list(generate(model, prompt, 24, sampling, seed=5 + row))
    if name != "likeliest":
        assert together != texts_of(generate_batch(model, PROMPTS, 24), len(PROMPTS))


def test_a_full_context_ends_the_text_where_that_is_asked(model):
    sampling = Sampling(temperature=0, when_full="stop")
    texts = texts_of(generate_batch(model, PROMPTS, 40, sampling), len(PROMPTS))
    # 16 positions hold the prompt and all but the last token, which nobody has to read.
    assert [len(text) for text in texts] == [17 - len(prompt) for prompt in PROMPTS]


def test_a_stop_token_ends_its_row_only(model):
    free = texts_of(generate_batch(model, PROMPTS, 12), len(PROMPTS))
    stop = free[0][4]
    stopped = texts_of(generate_batch(model, PROMPTS, 12, stop_ids=[stop]), len(PROMPTS))
    expected = [list(itertools.takewhile(lambda token: token != stop, text)) for text in free]
    assert stopped == expected
    assert len(stopped[0]) < 12
    assert max(map(len, stopped)) == 12


def test_steps_end_with_the_last_text(model):
    sampling = Sampling(temperature=0, when_full="stop")
    steps = list(generate_batch(model, PROMPTS, 40, sampling))
    assert len(steps) == 16
    assert all(any(token is not None for token in step) for step in steps)


def test_is_end_is_told_every_token_and_ends_its_row(model):
    told = []

    def third_of_row_one(row, token):
        told.append((row, token))
        return row == 1 and sum(r == 1 for r, _ in told) == 3

    texts = texts_of(generate_batch(model, PROMPTS, 6, is_end=third_of_row_one), len(PROMPTS))
    assert [len(text) for text in texts] == [6, 3, 6, 6]
    for row, text in enumerate(texts):
        assert [token for r, token in told if r == row] == text


@pytest.mark.parametrize("places", [1, 5, 16])
def test_places_behind_the_longest_text_are_not_read(model, monkeypatch, places):
    monkeypatch.setattr(decoding, "PLACES", places)
    decoder = Decoder(model, 3, LIKELIEST)
    decoder.read([[1, 2], [3, 4, 5, 6, 7], [6]])
    read = decoder._first(5 + -5 % places)[0][0].shape[2]
    for keys in (*decoder.keys, *decoder.values):
        keys[:, :, read:] = torch.nan
    drawn = decoder.step([3, 8, 7], [2, 4, 1], torch.zeros(3))
    texts = ([1, 2, 3], [3, 4, 5, 6, 8], [6, 7])
    assert drawn == [next(generate_uncached(model, text, 1)) for text in texts]


def test_reading_one_row_leaves_its_neighbours_alone(model):
    decoder = Decoder(model, 3, LIKELIEST)
    decoder.read([[1, 2], [3, 4, 5], [6]])
    before = [keys.clone() for keys in decoder.keys]
    decoder.read([[9, 9, 9, 9]], first_row=1)
    for keys, old in zip(decoder.keys, before, strict=True):
        assert torch.equal(keys[0], old[0])
        assert torch.equal(keys[2], old[2])
        assert not torch.equal(keys[1], old[1])


def test_a_slot_cache_gives_the_logits_of_whole_rows_of_different_lengths(model):
    ids = torch.randint(50, (2, 9))
    whole = model(ids)
    decoder = Decoder(model, 2, LIKELIEST)
    decoder.read([ids[0, :3].tolist(), ids[1, :7].tolist()])
    places = torch.tensor([[3, 4], [7, 8]])
    new = ids.gather(1, places)
    caches = [SlotKVCache(*kv, places) for kv in zip(decoder.keys, decoder.values, strict=True)]
    logits = model(new, caches)
    expected = torch.stack([whole[0, 3:5], whole[1, 7:9]])
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


def bytes_tokenizer():
    return Tokenizer({i: bytes([i]) for i in range(256)}, [])


def test_texts_are_streamed_and_end_before_their_stop_strings():
    torch.manual_seed(0)
    model = TransformerLM(128, 32, 32, 1, 4, 64)  # ASCII
    tokenizer = bytes_tokenizer()
    prompts = [[65], [66, 67]]

    def texts(**settings):
        found = ["", ""]
        for row, piece in generate_texts(model, tokenizer, prompts, 60, BOLD, seed=1, **settings):
            assert piece
            found[row] += piece
        return found

    free = texts()
    assert [len(text) for text in free] == [60, 60]
    stop = free[0][20:24]
    stopped = texts(stop_strings=["never there", stop])
    assert stopped[0] == free[0][: free[0].index(stop)]
    assert stopped[1] == free[1].partition(stop)[0]


@pytest.mark.parametrize(
    ("prompts", "message"),
    [([], "no prompt"), ([[1], []], "prompt is empty"), ([[1], [50]], "token id 50")],
)
def test_bad_prompts_are_named(model, prompts, message):
    with pytest.raises(ValueError, match=message):
        list(generate_batch(model, prompts, 3))


def test_bfloat16_weights_give_the_tokens_of_the_same_model_without_a_cache():
    model = sharp_model().to(torch.bfloat16)
    together = texts_of(generate_batch(model, PROMPTS[:2], 10), 2)
    for prompt, text in zip(PROMPTS, together, strict=False):
        expected = list(generate_uncached(model, prompt, 10))
        # Sums in another order may round to another bfloat16, and two scores may be equal.
        assert text[:3] == expected[:3]


@pytest.mark.compile
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("num_rows", [1, 3])
def test_the_compiled_step_gives_the_same_tokens_and_is_compiled_once(num_rows, monkeypatch):
    from torch._dynamo.utils import counters

    if reason := reason_not_to_compile(torch.device("cpu")):
        pytest.skip(f"torch.compile does not work here: {reason}")
    monkeypatch.setattr(decoding, "PLACES", 4)
    model = sharp_model(num_layers=1)
    torch.compiler.reset()
    counters.clear()
    for top_p, seed in ((0.8, 1), (0.6, 2)):
        sampling = Sampling(
            temperature=1.1, top_k=9, top_p=top_p, repetition_penalty=1.2 if num_rows == 1 else 1.0
        )
        plain, compiled = (
            texts_of(
                generate_batch(
                    model, PROMPTS[:num_rows], 24, sampling, seed=seed, is_compiled=is_compiled
                ),
                num_rows,
            )
            for is_compiled in (False, True)
        )
        assert plain == compiled
    assert counters["stats"]["unique_graphs"] == 1, counters
    assert not counters["graph_break"]


def test_sums_of_products_are_the_matrix_product_of_one_row(model):
    same = with_row_linears(model)
    assert sum(isinstance(module, RowLinear) for module in same.modules()) == 15
    assert not any(isinstance(module, RowLinear) for module in model.modules())
    ours, theirs = dict(same.named_parameters()), dict(model.named_parameters())
    assert all(ours[name] is theirs[name] for name in theirs)
    ids = torch.randint(50, (1, 9))
    torch.testing.assert_close(same(ids), model(ids), rtol=1e-5, atol=1e-5)


def test_without_a_compiler_generation_goes_on_and_says_so(model, monkeypatch, caplog):
    from cs_basics.run import hardware

    monkeypatch.setattr(hardware, "reason_not_to_compile", lambda _: "no compiler")
    with caplog.at_level(logging.WARNING):
        steps = list(generate_batch(model, PROMPTS, 3, is_compiled=True))
    assert len(steps) == 3
    assert "no compiler" in caplog.text


@pytest.mark.compile
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_packed_weights_are_those_of_the_model_that_writes(monkeypatch):
    """Weights that became constants of a step must not serve another model of the same shape."""
    from torch._inductor import config

    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "maintain"))
    from process import pack_weights

    if reason := reason_not_to_compile(torch.device("cpu")):
        pytest.skip(f"torch.compile does not work here: {reason}")
    torch.compiler.reset()
    texts: list[list[list[int]]] = []
    with config.patch(freezing=False):  # Put back afterwards.
        pack_weights()
        assert config.freezing
        for seed in (0, 1):
            model = sharp_model(num_layers=1, seed=seed)
            plain, packed = (
                texts_of(generate_batch(model, PROMPTS[:3], 12, is_compiled=is_compiled), 3)
                for is_compiled in (False, True)
            )
            assert plain == packed
            texts.append(plain)
    assert config.freezing is False
    torch.compiler.reset()
    assert texts[0] != texts[1]
