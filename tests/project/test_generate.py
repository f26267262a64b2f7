"""Sampling: each setting does what it says, and the cache changes nothing but the time."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cs_basics.generate import generate, sample, stream_text
from cs_basics.tokenizer import Tokenizer
from cs_basics.transformer import TransformerLM


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    model = TransformerLM(50, 16, 32, 2, 4, 64)
    with torch.no_grad():
        model.lm_head.weight.mul_(20)  # sharp predictions, so that a wrong one shows
    return model


def generate_without_cache(model, prompt, max_tokens):
    """The definition of greedy decoding, within one context."""
    ids = list(prompt)
    for _ in range(max_tokens):
        ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
    return ids[len(prompt) :]


def test_the_cache_gives_the_tokens_of_the_whole_context(model):
    for start in range(5):
        prompt = [start, 7, 7 + start]
        expected = generate_without_cache(model, prompt, 13)
        assert list(generate(model, prompt, 13, temperature=0)) == expected


def test_logits_with_a_cache_are_those_without(model):
    ids = torch.randint(0, 50, (3, 16))
    caches = model.empty_caches(batch_size=3)
    pieces = [model(part, caches) for part in ids.split([5, 1, 1, 9], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), model(ids), rtol=1e-4, atol=1e-4)


def test_a_full_context_forgets_its_first_half_and_goes_on(model):
    ids = list(generate(model, [1, 2, 3], 40, temperature=0))
    assert len(ids) == 40
    # Token 14 after the prompt is the first that needs a 17th position: 8 are kept.
    context = [1, 2, 3, *ids[:14]]
    assert ids[14] == generate_without_cache(model, context[-8:], 1)[0]


def test_a_prompt_longer_than_the_context_is_cut(model):
    prompt = [5] * 30 + list(range(15))
    ids = list(generate(model, prompt, 1, temperature=0))
    assert ids == generate_without_cache(model, prompt[-15:], 1)


def test_a_seed_repeats_and_no_seed_does_not(model):
    first = list(generate(model, [1], 30, temperature=3.0, seed=3))
    assert first == list(generate(model, [1], 30, temperature=3.0, seed=3))
    assert first != list(generate(model, [1], 30, temperature=3.0, seed=4))
    fresh = {tuple(generate(model, [1], 30, temperature=3.0)) for _ in range(3)}
    assert len(fresh) == 3


def test_a_stop_token_ends_the_text_and_is_left_out(model):
    ids = list(generate(model, [1, 2, 3], 13, temperature=0))
    stop = ids[5]
    assert (
        list(generate(model, [1, 2, 3], 13, temperature=0, stop_ids=[stop]))
        == (ids[: ids.index(stop)])
    )


@pytest.mark.parametrize(
    ("prompt", "settings", "message"),
    [
        ([], {}, "prompt is empty"),
        ([50], {}, "token id 50 is not below vocab_size=50"),
        ([-1], {}, "token id -1"),
        ([1], {"temperature": -0.1}, "temperature=-0.1"),
        ([1], {"temperature": float("nan")}, "temperature=nan"),
        ([1], {"top_k": 0}, "top_k=0"),
        ([1], {"top_p": 0.0}, "top_p=0.0"),
        ([1], {"top_p": 1.5}, "top_p=1.5"),
    ],
)
def test_bad_settings_are_named(model, prompt, settings, message):
    with pytest.raises(ValueError, match=message):
        list(generate(model, prompt, 3, **settings))


def shares(logits, num_draws=4000, **settings):
    """Return how often each token is drawn."""
    generator = torch.Generator().manual_seed(0)
    rows = logits.expand(num_draws, -1)
    drawn = sample(rows, generator=generator, **settings)
    return torch.bincount(drawn, minlength=logits.shape[-1]) / num_draws


PROBABILITIES = torch.tensor([0.1, 0.5, 0.15, 0.25])


def test_sampling_follows_the_probabilities():
    torch.testing.assert_close(shares(PROBABILITIES.log()), PROBABILITIES, atol=0.03, rtol=0)


def test_temperature_sharpens_and_zero_takes_the_likeliest():
    sharper = PROBABILITIES**2 / (PROBABILITIES**2).sum()
    found = shares(PROBABILITIES.log(), temperature=0.5)
    torch.testing.assert_close(found, sharper, atol=0.03, rtol=0)
    assert shares(PROBABILITIES.log(), temperature=0)[1] == 1


def test_top_k_draws_from_the_k_likeliest():
    expected = torch.tensor([0, 0.5, 0, 0.25]) / 0.75
    found = shares(PROBABILITIES.log(), top_k=2)
    torch.testing.assert_close(found, expected, atol=0.03, rtol=0)
    assert shares(PROBABILITIES.log(), top_k=99).count_nonzero() == 4


def test_top_p_keeps_the_token_that_crosses():
    expected = torch.tensor([0, 0.5, 0, 0.25]) / 0.75
    found = shares(PROBABILITIES.log(), top_p=0.6)
    torch.testing.assert_close(found, expected, atol=0.03, rtol=0)
    assert shares(PROBABILITIES.log(), top_p=0.01)[1] == 1
    assert shares(PROBABILITIES.log(), top_p=1.0).count_nonzero() == 4


def test_top_p_counts_within_what_top_k_left():
    # Of the two likeliest, 0.5 is two thirds: it reaches 0.6 alone.
    assert shares(PROBABILITIES.log(), top_k=2, top_p=0.6)[1] == 1


@given(st.text(max_size=40))
def test_streamed_text_is_the_decoded_text_and_never_part_of_a_character(text):
    tokenizer = Tokenizer({i: bytes([i]) for i in range(256)}, [])
    ids = tokenizer.encode(text)
    pieces = list(stream_text(tokenizer, ids))
    assert "".join(pieces) == tokenizer.decode(ids)
    assert "�" not in "".join(pieces) or "�" in text


def test_a_half_character_at_the_end_is_replaced():
    tokenizer = Tokenizer({i: bytes([i]) for i in range(256)}, [])
    assert "".join(stream_text(tokenizer, list("é".encode())[:1])) == "�"
