"""The same inputs give the same output, however often they are given."""

import numpy as np
import pytest
from compare import expect, expect_close, in_either_form
from oracles import model as oracles
from probes.model import forward_in_turns
from test_attention import attention_case, split, with_two_batch_axes
from test_cross_entropy import as_number, flat
from test_layers import ROWS, embedding_case, linear_case, normal, swiglu_arguments, swiglu_case
from test_multihead import multihead_case, weights_of
from test_rmsnorm import rmsnorm_case
from test_rope import rope_case
from test_transformer import block_case, model_arguments, model_case


def linear(rng):
    case = linear_case(rng, 6, 4, ROWS)
    return case, oracles.linear(case["in_features"], case["weights"])


def embedding(rng):
    case = embedding_case(rng)
    return case, oracles.embedding(case["token_ids"], case["weights"])


def rmsnorm(rng):
    case = rmsnorm_case(rng)
    return case, oracles.rmsnorm(case["in_features"], case["weights"], case["eps"])


def silu(rng):
    x = normal(rng, 2, 3, 5)
    return {"in_features": x}, oracles.silu(x)


def swiglu(rng):
    case = swiglu_case(rng, 4)
    return case, oracles.swiglu(*swiglu_arguments(case))


def rope(rng):
    case = rope_case(rng)
    x, positions, theta = case["in_query_or_key"], case["token_positions"], case["theta"]
    return case, oracles.rope(x, positions, theta)


def softmax(rng):
    x = normal(rng, 2, 3, 5)
    return {"in_features": x, "dim": -1}, oracles.softmax(x, -1)


def attention(rng):
    case = attention_case(rng)
    expected = oracles.attention(*case.values())
    return case, expected, split(case), with_two_batch_axes(expected)


def multihead(rng):
    case = multihead_case(rng)
    return case, oracles.multihead(case["in_features"], weights_of(case), case["num_heads"])


def block(rng):
    case = block_case(rng)
    names = ("in_features", "weights", "num_heads", "theta")
    return case, oracles.transformer_block(*(case[name] for name in names))


def model(rng):
    case = model_case(rng)
    return case, oracles.transformer_lm(*model_arguments(case))


def cross_entropy(rng):
    logits, targets = normal(rng, 2, 3, 5), rng.integers(1, 4, (2, 3))
    expected = oracles.cross_entropy(logits, targets)
    return {"inputs": logits, "targets": targets}, expected, flat(logits, targets), expected


EXAMINED = {
    "linear": ("run_linear", linear),
    "embedding": ("run_embedding", embedding),
    "rmsnorm": ("run_rmsnorm", rmsnorm),
    "silu": ("run_silu", silu),
    "positionwise_feedforward": ("run_swiglu", swiglu),
    "rope": ("run_rope", rope),
    "softmax": ("run_softmax", softmax),
    "scaled_dot_product_attention": ("run_scaled_dot_product_attention", attention),
    "multihead_self_attention": ("run_multihead_self_attention", multihead),
    "transformer_block": ("run_transformer_block", block),
    "transformer_lm": ("run_transformer_lm", model),
    "cross_entropy": ("run_cross_entropy", cross_entropy),
}


@pytest.mark.parametrize(
    ("function", "make"),
    [pytest.param(*given, marks=pytest.mark.problem(name)) for name, given in EXAMINED.items()],
    ids=EXAMINED,
)
def test_output_is_the_same_each_time(observe, rng, function, make):
    def ask(observe, case, expected):
        seen = observe(forward_in_turns, function=function, cases=[case] * 3)
        first, *others = [np.asarray(one["output"]["values"], float) for one in seen]
        expect(
            # Not to the bit: a matrix product may depend on where in memory its factors are.
            all(np.allclose(first, other, 1e-4, 1e-5, equal_nan=True) for other in others),
            f"{function}, called three times with the same inputs, returned different values.\n"
            "  Dropout does this, and so do weights that are not loaded and start at random, or"
            " what is kept from one call to the next.",
            "output-is-random",
        )
        # The shape of a loss is examined elsewhere.
        output = seen[0]["output"] if expected.ndim else as_number(seen[0]["output"])
        expect_close(output, expected, function, tolerance=1e-4)

    forms = make(rng)
    in_either_form(ask, observe, forms[:2], forms[-2:])
