"""Generation by definition: each setting of sampling does what it says."""

import pytest
import torch

from cs_basics.generate import Sampling, generate, sample
from cs_basics.transformer import TransformerLM


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    model = TransformerLM(50, 16, 32, 2, 4, 64)
    with torch.no_grad():
        model.lm_head.weight.mul_(20)  # sharp predictions, so that a wrong one shows
    return model


def likeliest(model, context):
    return int(model(torch.tensor([context]))[0, -1].argmax())


@pytest.mark.parametrize("prompt", [[1, 7, 8], [5] * 30 + list(range(15))])
def test_each_greedy_token_is_that_of_the_last_tokens_that_fit_into_the_context(model, prompt):
    text, written = list(prompt), list(generate(model, prompt, 40))
    assert len(written) == 40
    for token in written:
        assert token == likeliest(model, text[-16:])
        text.append(token)


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
    assert list(generate(model, [1, 2, 3], 13, stop_ids=[stop])) == ids[: ids.index(stop)]


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
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"temperature": -0.1}, "temperature=-0.1"),
        ({"top_k": 0}, "top_k=0"),
        ({"top_p": 0.0}, "top_p=0.0"),
        ({"top_p": 1.5}, "top_p=1.5"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**settings)


PROBABILITIES = [0.1, 0.5, 0.15, 0.25]
LEVEL = [0.2, 0.3, 0.2, 0.2, 0.1]


@pytest.mark.parametrize(
    ("probabilities", "settings", "expected"),
    [
        (PROBABILITIES, {}, PROBABILITIES),
        (PROBABILITIES, {"temperature": 0.5}, [p * p for p in PROBABILITIES]),
        (PROBABILITIES, {"temperature": 0}, [0, 1, 0, 0]),
        (PROBABILITIES, {"temperature": 5e-324}, [0, 1, 0, 0]),
        (PROBABILITIES, {"top_k": 2}, [0, 0.5, 0, 0.25]),
        (PROBABILITIES, {"top_k": 99}, PROBABILITIES),
        # The token that crosses is kept, and the likeliest always, even of 0 in float32.
        (PROBABILITIES, {"top_p": 0.6}, [0, 0.5, 0, 0.25]),
        (PROBABILITIES, {"top_p": 1e-50}, [0, 1, 0, 0]),
        (PROBABILITIES, {"top_p": 1.0}, PROBABILITIES),
        # Of the two likeliest, 0.5 is two thirds: it reaches 0.6 alone.
        (PROBABILITIES, {"top_k": 2, "top_p": 0.6}, [0, 1, 0, 0]),
        # What ties with the last that is kept stays, too.
        (LEVEL, {"top_k": 2}, [0.2, 0.3, 0.2, 0.2, 0]),
        (LEVEL, {"top_p": 0.4}, [0.2, 0.3, 0.2, 0.2, 0]),
    ],
    ids=str,
)
def test_tokens_are_drawn_as_often_as_the_settings_say(probabilities, settings, expected):
    logits, generator = torch.tensor(probabilities).log(), torch.Generator().manual_seed(0)
    drawn = [sample(logits, Sampling(**settings), generator) for _ in range(1000)]
    shares = torch.bincount(torch.tensor(drawn), minlength=len(expected)) / 1000
    wanted = torch.tensor(expected) / sum(expected)
    torch.testing.assert_close(shares, wanted, atol=0.05, rtol=0)
    assert torch.equal(shares > 0, wanted > 0)


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-24])
def test_drawing_never_leaves_the_tokens_that_have_weight(monkeypatch, uniform):
    monkeypatch.setattr(torch, "rand", lambda *_, **__: torch.tensor(uniform))
    weights = torch.tensor([0.0, 0.7, 0.0, 1e-30, 0.3, 0.0])
    for scale in (1.0, 1e-6, 3e5):
        assert weights[sample((scale * weights).log(), Sampling(), torch.Generator())] > 0


def test_a_top_p_of_1_keeps_every_token(monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda *_, **__: torch.tensor(1 - 2**-24))
    # Next to the first token, 1e-9 is lost in a sum of float32; yet it is the last of the sum.
    logits = torch.tensor([1.0, *[1e-9] * 1000]).log()
    assert sample(logits, Sampling(top_p=1.0), torch.Generator()) > 500


@pytest.mark.parametrize("temperature", [0, 1.0])
@pytest.mark.parametrize("broken", [float("nan"), float("inf"), -float("inf")])
def test_scores_that_are_not_finite_are_named_instead_of_drawn_from(broken, temperature):
    logits = torch.full((4,), -float("inf"))
    logits[2] = broken
    with pytest.raises(ValueError, match=f"the highest score is {broken}"):
        sample(logits, Sampling(temperature=temperature), torch.Generator())
    assert sample(torch.tensor([-float("inf"), 0.0]), Sampling(), torch.Generator()) == 1
