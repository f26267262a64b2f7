"""The eps of the norms in block and model, where the stream is small enough to show it."""

import numpy as np
import pytest
from compare import expect_close
from mistakes import transformer as mistakes
from oracles import model as oracles
from probes.model import forward
from test_transformer import BLOCK, MODEL, block_case, model_arguments, model_case

SMALL = np.float32(2e-3)  # The mean square of such a stream is 4e-6: below the eps of 1e-5.


@pytest.mark.problem("transformer_block")
def test_block_adds_an_eps_of_1e_5_in_both_norms(observe, rng):
    case = block_case(rng)
    case["in_features"] *= SMALL
    case["weights"]["attn.output_proj.weight"] *= SMALL  # What ln2 is given is as small.
    x, weights = case["in_features"], case["weights"]
    parts = x, weights, case["num_heads"], case["theta"]
    expect_close(
        observe(forward, function=BLOCK, arguments=case)["output"],
        oracles.transformer_block(*parts),
        BLOCK,
        tolerance=5e-5,
        mistakes=lambda: mistakes.block_eps(*parts),
    )


@pytest.mark.problem("transformer_lm")
def test_model_adds_an_eps_of_1e_5_in_its_last_norm(observe, rng):
    case = model_case(rng, num_layers=1)
    weights = case["weights"]
    weights["token_embeddings.weight"] *= SMALL
    # A silent block: the stream that reaches the last norm is the embedding, as small as it is.
    weights["layers.0.attn.output_proj.weight"][:] = 0
    weights["layers.0.ffn.w2.weight"][:] = 0
    expect_close(
        observe(forward, function=MODEL, arguments=case)["output"],
        oracles.transformer_lm(*model_arguments(case)),
        MODEL,
        tolerance=1e-4,
        mistakes=lambda: mistakes.last_eps_of_silent_blocks(case["in_indices"], weights),
    )
