"""The same inputs give the same output, however often they are given."""

import numpy as np
import pytest
from compare import expect
from probes.model import forward_in_turns
from test_attention import NAME as ATTENTION
from test_attention import attention_case
from test_multihead import PLAIN, multihead_case
from test_transformer import BLOCK, MODEL, block_case, model_case

CASES = {
    "scaled_dot_product_attention": (ATTENTION, attention_case),
    "multihead_self_attention": (PLAIN, multihead_case),
    "transformer_block": (BLOCK, block_case),
    "transformer_lm": (MODEL, model_case),
}


@pytest.mark.parametrize(
    ("function", "make_case"),
    [pytest.param(*case, marks=pytest.mark.problem(name)) for name, case in CASES.items()],
    ids=CASES,
)
def test_output_is_not_random(observe, rng, function, make_case):
    seen = observe(forward_in_turns, function=function, cases=[make_case(rng)] * 3)
    first, *others = [np.asarray(one["output"]["values"], float) for one in seen]
    expect(
        all(np.array_equal(first, other, equal_nan=True) for other in others),
        f"{function}, called three times with the same inputs, returned different values.\n"
        "  This is what comes out when there is dropout, or weights are not loaded and start at"
        " random.",
        "output-is-random",
    )
