"""Sampling: each setting does what it says, and the cache changes nothing but the time."""

import pytest
import torch

from cs_basics.fast.sampling import Knobs, draw_fast, largest, least_kept, sample_fast
from cs_basics.generate import draw, generate, generate_uncached, sample
from cs_basics.run.config import Sampling
from cs_basics.transformer import TransformerLM


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    model = TransformerLM(50, 16, 32, 2, 4, 64)
    with torch.no_grad():
        model.lm_head.weight.mul_(20)  # sharp predictions, so that a wrong one shows
    return model


def continue_by_hand(model, prompt, max_tokens):
    """Greedy decoding in four lines, within one context."""
    ids = list(prompt)
    for _ in range(max_tokens):
        ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
    return ids[len(prompt) :]


def test_the_cache_gives_the_tokens_of_the_whole_context(model):
    for start in range(5):
        prompt = [start, 7, 7 + start]
        expected = continue_by_hand(model, prompt, 13)
        assert list(generate(model, prompt, 13)) == expected
        assert list(generate_uncached(model, prompt, 13)) == expected


def test_logits_with_a_cache_are_those_without(model):
    ids = torch.randint(0, 50, (3, 16))
    caches = model.empty_caches(batch_size=3)
    pieces = [model(part, caches) for part in ids.split([5, 1, 1, 9], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), model(ids), rtol=1e-4, atol=1e-4)


def test_a_full_context_forgets_its_first_half_and_goes_on(model):
    ids = list(generate(model, [1, 2, 3], 40))
    assert len(ids) == 40
    # Token 14 after the prompt is the first that needs a 17th position: 8 are kept.
    context = [1, 2, 3, *ids[:14]]
    assert ids[14] == continue_by_hand(model, context[-8:], 1)[0]


def test_a_prompt_longer_than_the_context_is_cut(model):
    prompt = [5] * 30 + list(range(15))
    ids = list(generate(model, prompt, 1))
    assert ids == continue_by_hand(model, prompt[-15:], 1)


def test_a_seed_repeats_and_no_seed_does_not(model):
    bold = Sampling(temperature=3.0)
    first = list(generate(model, [1], 30, bold, seed=3))
    assert first == list(generate(model, [1], 30, bold, seed=3))
    assert first != list(generate(model, [1], 30, bold, seed=4))
    fresh = {tuple(generate(model, [1], 30, bold)) for _ in range(3)}
    assert len(fresh) == 3


def test_a_stop_token_ends_the_text_and_is_left_out(model):
    ids = list(generate(model, [1, 2, 3], 13))
    stop = ids[5]
    assert list(generate(model, [1, 2, 3], 13, stop_ids=[stop])) == (ids[: ids.index(stop)])


@pytest.mark.parametrize("generate_by", [generate, generate_uncached])
@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ([], "prompt is empty"),
        ([50], "token id 50 is not below vocab_size=50"),
        ([-1], "token id -1"),
    ],
)
def test_bad_prompts_are_named(model, prompt, message, generate_by):
    with pytest.raises(ValueError, match=message):
        list(generate_by(model, prompt, 3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -0.1}, "temperature=-0.1"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"top_k": 0}, "top_k=0"),
        ({"top_p": 0.0}, "top_p=0.0"),
        ({"top_p": 1.5}, "top_p=1.5"),
        ({"repetition_penalty": 0.0}, "repetition_penalty=0.0"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**settings)


def shares(logits, num_draws=4000, **settings):
    """Return how often each token is drawn."""
    uniform = torch.rand(num_draws, generator=torch.Generator().manual_seed(0))
    drawn = sample(logits.expand(num_draws, -1), Sampling(**settings), uniform)
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


def test_tokens_as_likely_as_the_last_one_that_is_kept_stay_too():
    level = torch.tensor([0.2, 0.3, 0.2, 0.2, 0.1]).log()
    assert shares(level, top_k=2).count_nonzero() == 4
    assert shares(level, top_p=0.4).count_nonzero() == 4


def test_a_penalty_makes_seen_tokens_less_likely_whatever_the_sign_of_their_score():
    logits = torch.tensor([[2.0, -2.0, 1.5, -3.0]])
    seen = torch.tensor([[True, True, False, False]])
    sampling = Sampling(repetition_penalty=2.0)
    uniform = torch.rand(4000, generator=torch.Generator().manual_seed(0))
    drawn = sample(logits.expand(4000, -1), sampling, uniform, seen.expand(4000, -1))
    expected = torch.tensor([1.0, -4.0, 1.5, -3.0]).softmax(0)
    torch.testing.assert_close(
        torch.bincount(drawn, minlength=4) / 4000, expected, atol=0.03, rtol=0
    )


@pytest.mark.parametrize("draw", [draw, draw_fast])
def test_drawing_never_leaves_the_tokens_that_have_weight(draw):
    weights = torch.tensor([[0.0, 0.7, 0.0, 1e-30, 0.3, 0.0]])
    for uniform in (0.0, 0.5, 1 - 2**-24):
        assert weights[0, draw(weights, torch.tensor([uniform]))] > 0
    totals = torch.rand(1000, 1, generator=torch.Generator().manual_seed(0)) * 4
    weights = totals * torch.tensor([[1.0, 2.0, 0.0]])
    drawn = draw(weights, torch.full((1000,), 1 - 2**-24))
    assert (drawn == 1).all()


@pytest.mark.parametrize("vocab_size", [1, 15, 16, 17, 1000])
def test_drawing_in_blocks_draws_what_the_running_sum_draws(vocab_size):
    generator = torch.Generator().manual_seed(0)
    # Whole numbers: every sum is exact, in whatever order.
    weights = torch.randint(4, (500, vocab_size), generator=generator).float()
    weights[:, vocab_size // 2] = 1.0
    uniform = torch.rand(500, generator=generator)
    assert torch.equal(draw_fast(weights, uniform), draw(weights, uniform))


@pytest.mark.parametrize("num_largest", [1, 3, 20, 64])
def test_the_largest_are_found_in_blocks(num_largest):
    generator = torch.Generator().manual_seed(0)
    # Ten values for a thousand places: ties within blocks and between them.
    weights = torch.randint(10, (50, 1001), generator=generator).float()
    weights[0] = 0.0
    expected = weights.sort(dim=-1, descending=True).values[:, :num_largest]
    assert torch.equal(largest(weights, num_largest), expected)


@pytest.mark.parametrize("top_k", [None, 1, 7, 400, 9999])
@pytest.mark.parametrize("top_p", [None, 1e-6, 0.3, 0.9, 0.999, 1.0])
@pytest.mark.parametrize("sharpness", [0.0, 1.0, 5.0])
def test_fast_sampling_draws_what_the_definition_draws(top_k, top_p, sharpness):
    generator = torch.Generator().manual_seed(0)
    logits = sharpness * torch.randn(64, 500, generator=generator)
    uniform = torch.rand(64, generator=generator)
    seen = torch.rand(64, 500, generator=generator) < 0.3
    for penalty in (1.0, 1.7):
        sampling = Sampling(temperature=0.8, top_k=top_k, top_p=top_p, repetition_penalty=penalty)
        knobs = Knobs.of(sampling, logits.device)
        expected = sample(logits, sampling, uniform, seen)
        assert torch.equal(sample_fast(logits, knobs, uniform, seen), expected)


def test_halving_finds_the_least_probability_of_the_nucleus_exactly():
    probabilities = torch.tensor([[0.1, 0.5, 0.15, 0.25], [0.97, 0.01, 0.01, 0.01]])
    for top_p, least in ((0.4, [0.5, 0.97]), (0.6, [0.25, 0.97]), (0.95, [0.1, 0.97])):
        found = least_kept(probabilities, None, torch.tensor(top_p))
        assert torch.equal(found, torch.tensor(least).unsqueeze(1))
