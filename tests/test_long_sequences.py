"""Sequences longer than whatever a mask or a table might have been made for."""

import numpy as np
import pytest
from compare import expect_close, noting
from oracles import model as oracles
from probes.model import forward
from test_multihead import multihead_case, weights_of
from test_transformer import BLOCK, MODEL, block_case, model_arguments, model_case

LONG = 40  # Where nothing says how long a sequence may be, some make a mask for 64.


def examine(observe, function, case, key, expected, tolerance=1e-4):
    short = {**case, key: case[key][:, :5]}
    if "token_positions" in case:
        short["token_positions"] = case["token_positions"][:5]
    with noting(
        f"with 5 positions; here there are {case[key].shape[1]}, which is allowed",
        control=lambda: observe(forward, function=function, arguments=short),
    ):
        seen = observe(forward, function=function, arguments=case)
    name = f"{function} of {case[key].shape[1]} positions"
    expect_close(seen["output"], expected, name, tolerance=tolerance)


@pytest.mark.problem("multihead_self_attention")
def test_multihead_takes_a_long_sequence(observe, rng):
    case = multihead_case(rng, length=LONG)
    expected = oracles.multihead(case["in_features"], weights_of(case), case["num_heads"])
    examine(observe, "run_multihead_self_attention", case, "in_features", expected)


@pytest.mark.problem("multihead_self_attention_with_rope")
def test_multihead_with_rope_takes_a_long_sequence(observe, rng):
    case = multihead_case(rng, length=LONG)
    case |= {"max_seq_len": LONG, "theta": 100.0, "token_positions": np.arange(LONG)}
    settings = case["num_heads"], case["theta"]
    expected = oracles.multihead_with_rope(case["in_features"], weights_of(case), *settings)
    examine(observe, "run_multihead_self_attention_with_rope", case, "in_features", expected)


@pytest.mark.problem("transformer_block")
def test_block_takes_a_long_sequence(observe, rng):
    case = {**block_case(rng, length=LONG), "max_seq_len": LONG}
    settings = case["num_heads"], case["theta"]
    expected = oracles.transformer_block(case["in_features"], case["weights"], *settings)
    examine(observe, BLOCK, case, "in_features", expected)


@pytest.mark.problem("transformer_lm")
def test_model_takes_a_long_sequence(observe, rng):
    # Here context_length says it; some make a mask for 1,024 whatever it says.
    case = {**model_case(rng, length=1100, num_layers=1, vocab_size=5), "context_length": 1100}
    expected = oracles.transformer_lm(*model_arguments(case))
    # Angles of float32 are exact to 6e-5 there.
    examine(observe, MODEL, case, "in_indices", expected, tolerance=1e-3)
