"""Modules go to another device with all that belongs to them, and so does an optimizer's state.

Only what an adapter calls as a module can be moved; a function that needs no module passes.
"""

import numpy as np
import pytest
from compare import expect
from probes.devices import follow, step_elsewhere
from test_layers import ROWS, embedding_case, linear_case, swiglu_case
from test_multihead import PLAIN, WITH_ROPE, multihead_case, rope_case
from test_rmsnorm import rmsnorm_case
from test_rope import rope_case as rotation_case
from test_transformer import BLOCK, MODEL, block_case, model_case

CASES = {
    "linear": ("run_linear", lambda rng: linear_case(rng, 6, 4, ROWS)),
    "embedding": ("run_embedding", embedding_case),
    "rmsnorm": ("run_rmsnorm", rmsnorm_case),
    "positionwise_feedforward": ("run_swiglu", lambda rng: swiglu_case(rng, 4)),
    "rope": ("run_rope", rotation_case),
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
