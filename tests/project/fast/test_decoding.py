"""With a cache, and several texts at once: the tokens are those of the definition."""

import copy

import pytest
import torch
from small_models import FORMS, fast_twin, small_model

from cs_basics.fast.cached import DecodingLM, KVCache, can_decode
from cs_basics.fast.decoding import Decoder, draw, generate_batch
from cs_basics.fast.decoding import generate as generate_with_cache
from cs_basics.generate import GREEDY, Sampling, generate, sample
from cs_basics.layers import Linear
from cs_basics.run.model import batch_generator
from cs_basics.variants.model import Transformer

PROMPTS = ([1, 2, 3], [7], list(range(20, 31)), [4, 4, 9, 9, 4], list(range(30)))
SETTINGS = [
    Sampling(temperature=1.3, top_k=7),
    Sampling(temperature=1.3, top_k=12, top_p=0.7),
    Sampling(temperature=1.3, top_p=0.7),
    Sampling(temperature=1.3, top_k=500, top_p=1.0),
]


def sharp_model(**choices):
    model = small_model(**{"context_length": 16} | choices)
    with torch.no_grad():
        model.lm_head.weight.mul_(8)  # sharp predictions, so that a wrong one shows
    return model


@pytest.fixture(scope="module")
def model():
    return sharp_model()


def by_definition(model, prompt, num_tokens, sampling=GREEDY, seed=0):
    """Write without a cache, dropping the first half of a context that is full."""
    context, written = list(prompt[-16:]), []
    generator = torch.Generator().manual_seed(seed)
    while len(written) < num_tokens:
        context = context if len(context) <= 16 else context[-8:]
        with torch.no_grad():
            logits = model(torch.tensor([context]))[0, -1]
        written.append(sample(logits, sampling, generator))
        context.append(written[-1])
    return written


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


@pytest.mark.parametrize("form", FORMS)
def test_with_a_cache_the_logits_are_those_of_the_whole_sequence(form):
    clear = sharp_model(**FORMS[form])
    ids, config = torch.randint(50, (3, 16)), clear.config
    for model in (clear, fast_twin(clear)):
        decoder = DecodingLM(model)
        tensors = decoder.empty_caches(3, 16)
        num_kv_heads = config.num_kv_heads or config.num_heads
        assert tensors[0][0].shape == (3, num_kv_heads, 16, config.d_head)
        parts = []
        for places in torch.arange(16).expand(3, -1).split([5, 1, 1, 9], dim=1):
            caches = [KVCache(*each, places) for each in tensors]
            parts.append(decoder.hidden(ids.gather(1, places), caches))
        logits = decoder.lm_head(torch.cat(parts, dim=1))
        torch.testing.assert_close(logits, clear(ids), rtol=1e-4, atol=1e-4)


def test_of_a_model_with_unknown_parts_the_definition_writes(model):
    class Own(Transformer):
        pass

    theirs = Own(model.config)
    theirs.load_state_dict(model.state_dict())
    assert batch_generator(theirs) is None
    assert batch_generator(model) is generate_batch
    other_head = copy.deepcopy(model)
    other_head.lm_head = type("OwnLinear", (Linear,), {})(32, 50)
    assert not can_decode(other_head)
    expected = list(generate(model, [1, 2], 8))
    assert list(generate_with_cache(theirs, [1, 2], 8)) == expected
    with pytest.raises(TypeError, match="Own has other parts than those known"):
        next(generate_batch(theirs, [[1]], 3))


@pytest.mark.parametrize("sampling", [GREEDY, *SETTINGS], ids=str)
@pytest.mark.parametrize("form", ["the book's", "heads of 12", "value residual, grouped, QK-norm"])
def test_the_tokens_of_a_batch_with_a_cache_are_those_of_the_definition(form, sampling):
    clear = sharp_model(**FORMS[form])
    # 24 tokens: each row's context fills, at another step than its neighbour's.
    expected = [
        by_definition(clear, prompt, 24, sampling, 5 + row) for row, prompt in enumerate(PROMPTS)
    ]
    assert len(set(map(tuple, expected))) > 1
    for model in (clear, fast_twin(clear)):
        together = generate_batch(model, PROMPTS, 24, sampling, seed=5)
        assert texts_of(together, len(PROMPTS)) == expected
        one = generate_with_cache(model, PROMPTS[2], 24, sampling, seed=7)
        assert list(one) == expected[2]
    for row, prompt in enumerate(PROMPTS):
        # The book's own generation drops one token at a time: equal until there is one to drop.
        fits = max(17 - len(prompt), 1)
        until_full = list(generate(clear, prompt, fits, sampling, seed=5 + row))
        assert expected[row][:fits] == until_full


@pytest.mark.parametrize("sampling", [*SETTINGS, Sampling(temperature=1e-9)], ids=str)
def test_rows_are_drawn_as_the_definition_draws_one(sampling):
    torch.manual_seed(0)
    logits = torch.randn(300, 50).mul(3).round().div(2)  # Many are equal.
    logits[::7, ::5] = -torch.inf
    once, again = ([torch.Generator().manual_seed(row) for row in range(300)] for _ in range(2))
    expected = [sample(row, sampling, own) for row, own in zip(logits, once, strict=True)]
    assert draw(logits, sampling, again) == expected
    logits[8, 3] = torch.nan
    with pytest.raises(ValueError, match="the highest score is nan"):
        draw(logits, sampling, again)


def test_a_stop_token_ends_its_row_only_and_steps_end_with_the_last_text(model):
    free = texts_of(generate_batch(model, PROMPTS, 12), len(PROMPTS))
    for stops in ({free[0][4]}, {text[3] for text in free}):
        steps = list(generate_batch(model, PROMPTS, 12, stop_ids=stops))
        ends = [[token in stops for token in [*text, *stops]].index(True) for text in free]
        expected = [text[:end] for text, end in zip(free, ends, strict=True)]
        assert texts_of(steps, len(PROMPTS)) == expected
        assert len(steps) == max(map(len, expected))
        assert len(expected[0]) < 12
    assert len(steps) < 12


def test_places_behind_the_longest_text_are_not_read(model):
    decoder = Decoder(model, 3)
    decoder.read([[1, 2], [3, 4, 5, 6, 7], [6]])
    for keys, values in decoder.caches:
        for part in (keys, values):
            part[:, :, 5:] = torch.nan
    drawn = decoder.logits([3, 8, 7], [2, 4, 1]).argmax(dim=-1).tolist()
    texts = ([1, 2, 3], [3, 4, 5, 6, 8], [6, 7])
    assert drawn == [next(generate(model, text, 1)) for text in texts]


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
        expected = list(generate(model, prompt, 10))
        # Sums in another order may round to another bfloat16, and two scores may be equal.
        assert text[:3] == expected[:3]
