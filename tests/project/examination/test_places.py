"""The lines that a wrong answer is put down to, and the small inputs that show it."""

import functools
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import adapters
import contract
import failure
import numpy as np
import places
import pytest
import torch
from compare import WrongAnswer
from oracles import text as oracles
from places import cases
from places.matching import Known
from places.sentences import call, on_paper, shown
from places.shrinking import smallest
from planted.spoiled import accusations
from texts import AWKWARD, tokenizer

ROOT = Path(__file__).parents[3]
RNG = np.random.default_rng(0)
HEADS = RNG.standard_normal((5, 3, 2, 4))  # batch, seq, heads, d_head
FOUND = [
    "reference, softmax: the sum is over everything",
    "independent, rmsnorm: eps is outside the root",
    "reference, scaled_dot_product_attention: the softmax is over the queries",
    "independent, multihead_self_attention: the heads are split without a transposition",
    "reference, transformer_block: the first norm is forgotten",
    "independent, adamw: the update is added",
    "reference, gradient_clipping: the norms are summed",
    "independent, learning_rate_schedule: the warm-up is not subtracted",
]


def with_adapters(**stand_ins):
    """Return what runs probes against these adapters."""
    chosen = SimpleNamespace(**{**vars(adapters), **stand_ins})
    return lambda probe, **given: probe(chosen, **given)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (HEADS, ("q", True)),
        (HEADS.reshape(5, 3, 8), ("q", True)),
        (np.swapaxes(HEADS, 1, 2).reshape(10, 3, 4), ("q", True)),
        (np.broadcast_to(HEADS[:, None], (5, 7, 3, 2, 4)), ("q", True)),
        (HEADS[:, :, 1], ("a part of q", True)),
        (HEADS.reshape(5, 2, 3, 4), ("q", False)),
        (HEADS[::-1], ("q", False)),
        (HEADS + 0.01, None),
    ],
    ids=["same", "merged", "moved", "broadcast", "part", "split wrongly", "reversed", "other"],
)
def test_quantities_are_recognised_in_any_layout(values, expected):
    match = Known({"other": HEADS * 2, "q": HEADS}).match(values)
    assert (match and (match.name, match.is_exact)) == expected


@pytest.mark.parametrize("function", list(cases.MAKERS))
def test_right_work_is_not_explained(function):
    assert places.explain(with_adapters(), {"function": function}) == ""


def test_honest_work_is_not_accused_of_what_others_spoil():
    spoiled = list(accusations(every=5))
    assert len(spoiled) > 20
    assert [one for one in spoiled if one.accused] == []


def test_planted_faults_are_found():
    command = [sys.executable, ROOT / "scripts" / "maintain" / "places.py", "--jobs", "1"]
    finished = subprocess.run(
        [*command, "--least", "1", "--only", *FOUND], capture_output=True, text=True, check=False
    )
    assert f"the line of {len(FOUND)} of {len(FOUND)} faults" in finished.stdout, finished.stdout
    assert finished.returncode == 0


def test_smallest_input_is_made_from_that_of_the_item():
    def run_softmax(in_features, dim):
        powers = in_features.exp()
        return powers / powers.sum(dim, keepdim=True)

    own = {"in_features": RNG.standard_normal((3, 4, 5)).astype(np.float32) + 200, "dim": -1}
    case, got, expected = smallest(with_adapters(run_softmax=run_softmax), "run_softmax", own)
    assert case["in_features"].size == 1
    assert np.isnan(got).any()
    assert np.isfinite(expected).all()


def test_small_input_can_be_typed():
    def run_silu(in_features):
        return torch.sigmoid(in_features)

    case, got, expected = smallest(with_adapters(run_silu=run_silu), "run_silu", None)
    assert case["in_features"].size == 1
    text = on_paper(call("run_silu", case), shown(got), shown(expected))
    assert "run_silu(in_features=[" in text
    assert "expected  [" in text
    with contract.under(contract.Contract(argument_names="short")):
        assert "run_silu(x=[" in call("run_silu", case)


SPLIT_FROM_ITS_SPACE = """The smallest input found with which it goes wrong:
  get_tokenizer(special_tokens=[], merges=[(b' ', b'b')], vocab: 257 tokens).encode(' b')
    got       [32, 98], which is b' |b'
    expected  [256], which is b' b'"""
COUNTED_ACROSS_WORDS = """The smallest input found with which it goes wrong:
  run_train_bpe(vocab_size=257, special_tokens=[], a file of b'.c')
    got       [(b'.', b'c')]
    expected  []"""


def test_the_smallest_text_is_shown_for_a_tokenizer():
    def at_spaces(vocab, merges, special_tokens):
        right = adapters.get_tokenizer(vocab, merges, special_tokens)

        def encode(text):
            return [i for part in re.split("( )", text) for i in right.encode(part)]

        return SimpleNamespace(encode=encode, decode=right.decode)

    asked = {"tokenizer": tokenizer(), "texts": ["dog", AWKWARD["plain words"]]}
    assert places.explain(with_adapters(get_tokenizer=at_spaces), asked) == SPLIT_FROM_ITS_SPACE
    assert places.explain(with_adapters(), asked) == ""


def test_the_smallest_text_is_shown_for_training():
    def without_words(input_path, vocab_size, special_tokens, **_):
        text = Path(input_path).read_bytes()
        pieces = Counter({text.decode(): 1})
        merges = oracles.train_bpe(text, vocab_size, special_tokens, counts=pieces)
        return dict(enumerate(oracles.vocab_of(merges).values())), merges

    asked = {"text": b"a.c. b.c. a.c.", "vocab_size": 262, "special_tokens": []}
    assert places.explain(with_adapters(run_train_bpe=without_words), asked) == COUNTED_ACROSS_WORDS
    assert places.explain(with_adapters(), asked) == ""


DECAY_IN_THE_GRADIENT = """The smallest input found with which it goes wrong:
  AdamW(parameters [1], lr=0.5, betas=(0.5, 0.75), eps=1e-08, weight_decay=0.5), \
steps with gradients [[0.0]]
    got       [0.5]
    expected  [0.75]"""


def test_the_smallest_steps_are_shown_for_an_optimizer():
    asked = {"groups": [], "options": {}, "gradients": []}
    found = places.explain(with_adapters(get_adamw_cls=lambda: torch.optim.Adam), asked)
    assert found.endswith(DECAY_IN_THE_GRADIENT)
    assert places.explain(with_adapters(), asked) == ""


def test_what_a_sandbox_ends_is_not_explained(monkeypatch):
    monkeypatch.setattr(failure.places, "explain", lambda run, _: run())
    wrong = WrongAnswer("3 of 5 values are wrong")
    over = functools.partial(pytest.fail, "over 10 s of CPU")
    failure.say_where_it_goes_wrong(wrong, over, {}, Counter(), "silu")
    assert wrong.msg == "3 of 5 values are wrong"
