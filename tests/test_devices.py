"""Modules go to another device with all that belongs to them, and so does an optimizer's state.

Only what an adapter calls as a module can be moved; a function that needs no module passes.
"""

import numpy as np
import pytest
from compare import expect
from probes.devices import follow, step_elsewhere
from test_multihead import PLAIN, WITH_ROPE, multihead_case, rope_case
from test_rope import rope_case as rotation_case
from test_transformer import BLOCK, MODEL, block_case, model_case


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def linear_case(rng):
    return {"d_in": 6, "d_out": 4, "weights": normal(rng, 4, 6), "in_features": normal(rng, 3, 6)}


def embedding_case(rng):
    table = normal(rng, 9, 4)
    return {
        "vocab_size": 9,
        "d_model": 4,
        "weights": table,
        "token_ids": rng.integers(0, 9, (2, 3)),
    }


def swiglu_case(rng):
    shapes = {"w1_weight": (6, 4), "w2_weight": (4, 6), "w3_weight": (6, 4), "in_features": (3, 4)}
    return {"d_model": 4, "d_ff": 6, **{name: normal(rng, *s) for name, s in shapes.items()}}


def rmsnorm_case(rng):
    return {"d_model": 4, "eps": 1e-5, "weights": normal(rng, 4), "in_features": normal(rng, 3, 4)}


CASES = {
    "linear": ("run_linear", linear_case),
    "embedding": ("run_embedding", embedding_case),
    "rmsnorm": ("run_rmsnorm", rmsnorm_case),
    "positionwise_feedforward": ("run_swiglu", swiglu_case),
    "rope": ("run_rope", lambda rng: rotation_case(rng, (2,), np.arange(6))),
    "multihead_self_attention": (PLAIN, multihead_case),
    "multihead_self_attention_with_rope": (WITH_ROPE, lambda rng: rope_case(rng, np.arange(5))),
    "transformer_block": (BLOCK, block_case),
    "transformer_lm": (MODEL, model_case),
}


@pytest.mark.parametrize(
    ("function", "make_case"),
    [pytest.param(*case, marks=pytest.mark.problem(name)) for name, case in CASES.items()],
    ids=CASES,
)
def test_module_goes_to_another_device_as_a_whole(observe, rng, function, make_case):
    complaint = observe(follow, function=function, arguments=make_case(rng))
    expect(
        complaint == "",
        f"{function}: the module that answers was moved to another device with .to(device), and"
        f" something stayed behind ({complaint})\n"
        "  Tables that are plain tensors stay, and masks or positions that are made without"
        " device=x.device: use register_buffer, and make tensors where x is.",
        "something-stays-behind",
    )


@pytest.mark.problem("adamw")
def test_adamw_keeps_its_state_on_the_device_of_the_parameter(observe):
    complaint = observe(
        step_elsewhere,
        options={"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.1},
    )
    expect(
        complaint == "",
        f"AdamW: its parameter is on another device, and something is not ({complaint})\n"
        "  torch.zeros(p.shape) is made on the CPU: use torch.zeros_like(p).",
        "something-stays-behind",
    )
