"""Sampling by definition: each setting does what it says."""

import pytest
import torch

from cs_basics.generate import GREEDY, Sampling, generate, sample
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


def test_greedy_tokens_are_those_of_the_whole_context(model):
    for start in range(5):
        prompt = [start, 7, 7 + start]
        assert list(generate(model, prompt, 13)) == continue_by_hand(model, prompt, 13)


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


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ([], "prompt is empty"),
        ([50], r"token id 50 is not in \[0, 50\)"),
        ([-1], "token id -1"),
    ],
)
def test_bad_prompts_are_named(model, prompt, message):
    with pytest.raises(ValueError, match=message):
        list(generate(model, prompt, 3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -0.1}, "temperature=-0.1"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"temperature": 1e-40}, "temperature=1e-40"),
        ({"top_k": 0}, "top_k=0"),
        ({"top_p": 0.0}, "top_p=0.0"),
        ({"top_p": 1.5}, "top_p=1.5"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**settings)


def shares(logits, num_draws=4000, **settings):
    """Return how often each token is drawn."""
    generator = torch.Generator().manual_seed(0)
    drawn = [sample(logits, Sampling(**settings), generator) for _ in range(num_draws)]
    return torch.bincount(torch.tensor(drawn), minlength=logits.shape[-1]) / num_draws


PROBABILITIES = torch.tensor([0.1, 0.5, 0.15, 0.25])


def test_sampling_follows_the_probabilities():
    torch.testing.assert_close(shares(PROBABILITIES.log()), PROBABILITIES, atol=0.03, rtol=0)


def test_temperature_sharpens_and_zero_takes_the_likeliest():
    sharper = PROBABILITIES**2 / (PROBABILITIES**2).sum()
    found = shares(PROBABILITIES.log(), temperature=0.5)
    torch.testing.assert_close(found, sharper, atol=0.03, rtol=0)
    for least in (0, 1e-30):
        assert shares(PROBABILITIES.log(), temperature=least)[1] == 1


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
    # 0 in float32: the likeliest token is kept all the same.
    assert shares(PROBABILITIES.log(), top_p=1e-50)[1] == 1
    assert shares(PROBABILITIES.log(), top_p=1.0).count_nonzero() == 4


def test_top_p_counts_within_what_top_k_left():
    # Of the two likeliest, 0.5 is two thirds: it reaches 0.6 alone.
    assert shares(PROBABILITIES.log(), top_k=2, top_p=0.6)[1] == 1


def test_tokens_as_likely_as_the_last_one_that_is_kept_stay_too():
    level = torch.tensor([0.2, 0.3, 0.2, 0.2, 0.1]).log()
    assert shares(level, top_k=2).count_nonzero() == 4
    assert shares(level, top_p=0.4).count_nonzero() == 4


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-24])
def test_drawing_never_leaves_the_tokens_that_have_weight(monkeypatch, uniform):
    monkeypatch.setattr(torch, "rand", lambda *_, **__: torch.tensor(uniform))
    generator = torch.Generator()
    weights = torch.tensor([0.0, 0.7, 0.0, 1e-30, 0.3, 0.0])
    for scale in (1.0, 1e-6, 3e5):
        assert weights[sample((scale * weights).log(), Sampling(), generator)] > 0


def test_nothing_is_the_same_as_greedy():
    assert Sampling(temperature=0) == GREEDY
