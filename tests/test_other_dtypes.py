"""Layers and models in each float type, as far as they support it: what they answer in which."""

import numpy as np
import pytest
from compare import expect, expect_close, expect_tensor, expect_unchanged, runs
from oracles import model as oracles
from probes.model import forward, forward_if_supported
from test_layers import swiglu_case
from test_transformer import block_case, model_case

# Relative to the largest value. Some keep single results in 16 bits, others only the last one.
TOLERANCES = {"float32": 1e-4, "float64": 1e-4, "bfloat16": 0.1, "float16": 2e-2}

REQUIRED = {("run_transformer_lm", "bfloat16")}
"""What may not refuse a dtype; RMSNorm, softmax and cross-entropy have items of their own."""

every_dtype = pytest.mark.parametrize("dtype", TOLERANCES)


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def examine(observe, function, dtype, case, oracle):
    """Round all floats of a case to the type, then compare with `oracle(case)`."""

    def is_float(value):
        return isinstance(value, np.ndarray) and value.dtype == np.float32

    def rounded(values):
        return {
            name: oracles.rounded(value, dtype) if is_float(value) else value
            for name, value in values.items()
        }

    case = rounded(case)
    if "weights" in case and isinstance(case["weights"], dict):
        case["weights"] = rounded(case["weights"])
    names = [name for name, value in case.items() if is_float(value)]
    names += case["weights"] if isinstance(case.get("weights"), dict) else []
    dtypes = dict.fromkeys(names, dtype)
    probe = forward if (function, dtype) in REQUIRED else forward_if_supported
    seen = observe(probe, function=function, arguments=case, dtypes=dtypes)
    if seen is None:
        return
    expect_close(
        seen["output"],
        oracle(case),
        f"{function} in {dtype}",
        dtypes=[dtype, "float32"],
        tolerance=TOLERANCES[dtype],
    )
    expect_unchanged(seen["changed"], function)


@pytest.mark.problem("linear")
@every_dtype
def test_linear_is_right_in_each_dtype(observe, rng, dtype):
    case = {
        "d_in": 6,
        "d_out": 4,
        "weights": normal(rng, 4, 6),
        "in_features": normal(rng, 2, 3, 6),
    }
    examine(
        observe,
        "run_linear",
        dtype,
        case,
        lambda c: oracles.linear(c["in_features"], c["weights"]),
    )


@pytest.mark.problem("embedding")
@every_dtype
def test_embedding_is_right_in_each_dtype(observe, rng, dtype):
    case = {"vocab_size": 9, "d_model": 4, "weights": normal(rng, 9, 4)}
    case["token_ids"] = rng.integers(1, 8, (2, 3))
    examine(
        observe,
        "run_embedding",
        dtype,
        case,
        lambda c: oracles.embedding(c["token_ids"], c["weights"]),
    )


@pytest.mark.problem("positionwise_feedforward")
@every_dtype
def test_swiglu_is_right_in_each_dtype(observe, rng, dtype):
    case = swiglu_case(rng, 4)
    names = ["in_features", "w1_weight", "w2_weight", "w3_weight"]
    examine(
        observe,
        "run_swiglu",
        dtype,
        case,
        lambda c: oracles.swiglu(*(c[name] for name in names)),
    )


@pytest.mark.problem("rope")
@every_dtype
def test_rope_is_right_in_each_dtype(observe, rng, dtype):
    case = {"d_k": 4, "theta": 100.0, "max_seq_len": 16, "in_query_or_key": normal(rng, 2, 5, 4)}
    case["token_positions"] = np.arange(5)
    examine(
        observe,
        "run_rope",
        dtype,
        case,
        lambda c: oracles.rope(c["in_query_or_key"], c["token_positions"], c["theta"]),
    )


@every_dtype
@pytest.mark.parametrize(
    "function",
    [
        pytest.param(
            "run_multihead_self_attention",
            marks=pytest.mark.problem("multihead_self_attention"),
        ),
        pytest.param(
            "run_multihead_self_attention_with_rope",
            marks=pytest.mark.problem("multihead_self_attention_with_rope"),
        ),
    ],
)
def test_multihead_is_right_in_each_dtype(observe, rng, function, dtype):
    case = {f"{name}_proj_weight": normal(rng, 8, 8) / 2 for name in "qkvo"}
    case |= {"d_model": 8, "num_heads": 2, "in_features": normal(rng, 2, 5, 8)}

    def oracle(c):
        weights = {name: c[f"{name}_proj_weight"] for name in "qkvo"}
        if "theta" in c:
            return oracles.multihead_with_rope(c["in_features"], weights, 2, c["theta"])
        return oracles.multihead(c["in_features"], weights, 2)

    if function.endswith("rope"):
        case |= {"theta": 100.0, "max_seq_len": 16, "token_positions": np.arange(5)}
    examine(observe, function, dtype, case, oracle)


def calmed(case):
    """Make weights small, so that no softmax is so sharp that the rounding of a score decides.

    In bfloat16 a single logit was once off by 0.23 of the largest; like this by 0.02 at most.
    """
    for key, weight in case["weights"].items():
        if "attn.q_proj" in key or "attn.k_proj" in key:
            weight *= np.float32(0.3)
        elif "attn" in key or "ffn" in key:
            weight *= np.float32(0.5)
    return case


@pytest.mark.problem("transformer_block")
@every_dtype
def test_block_is_right_in_each_dtype(observe, rng, dtype):
    case = calmed(block_case(rng))

    def oracle(c):
        return oracles.transformer_block(c["in_features"], c["weights"], c["num_heads"], c["theta"])

    examine(observe, "run_transformer_block", dtype, case, oracle)


@pytest.mark.problem("transformer_lm")
@every_dtype
def test_model_is_right_in_each_dtype(observe, rng, dtype):
    case = calmed(model_case(rng))

    def oracle(c):
        settings = (c[name] for name in ("num_layers", "num_heads", "rope_theta"))
        return oracles.transformer_lm(c["in_indices"], c["weights"], *settings)

    examine(observe, "run_transformer_lm", dtype, case, oracle)


# A residual stream so small that attention decides, and scores so small that rounding does not.
CALM = [("token_embeddings", 0.05), ("ffn", 0.2), ("q_proj", 0.5), ("k_proj", 0.5)]


@pytest.mark.problem("transformer_lm")
def test_model_keeps_its_positions_apart_in_bfloat16(observe, rng):
    """Rounding moves every result a little; rounded angles turn far positions by a radian.

    bfloat16 has no odd numbers from 257 on. The second pair of a head turns by 0.502 for each
    position, which is halfway between two numbers of bfloat16.
    """
    settings = {"num_layers": 1, "num_heads": 8, "d_model": 32, "d_ff": 128, "vocab_size": 16}
    case = model_case(rng, length=500, theta=3.97, **settings) | {"context_length": 500}
    for key, weight in case["weights"].items():
        weight *= np.float32(next((by for part, by in CALM if part in key), 1))
        case["weights"][key] = oracles.rounded(weight, "bfloat16")
    dtypes = dict.fromkeys(case["weights"], "bfloat16")

    def ask(case, dtypes):
        return observe(forward, function="run_transformer_lm", arguments=case, dtypes=dtypes)

    short = case | {"in_indices": case["in_indices"][:, :5]}
    try:
        seen = ask(case, dtypes)["output"]
    except Exception:
        if runs(lambda: ask(short, {})) and not runs(lambda: ask(short, dtypes)):
            return  # What runs in float32 alone is asked elsewhere.
        raise
    arguments = (case[name] for name in ("num_layers", "num_heads", "rope_theta"))
    expected = oracles.transformer_lm(case["in_indices"], case["weights"], *arguments)
    name = "run_transformer_lm in bfloat16 at positions from 257 on"
    expect_tensor(seen, expected.shape, name, ["bfloat16", "float32"])
    far, right = seen["values"][:, 257:], expected[:, 257:]
    # By 0.03 at most where only results are rounded, by 0.29 or more where angles are.
    error = float(np.sqrt(np.mean((far - right) ** 2) / np.mean(right**2)))
    finding = f"{name}: logits are off by {error:.2g} of their size, allowed 0.1"
    if error >= 0.1:
        wide = ask(case, {})["output"]
        expect_close(wide, expected, f"{finding}; in float32, too", tolerance=1e-3)
    expect(
        error < 0.1,
        f"{finding}\n"
        "  Are positions, or the frequencies of RoPE, rounded to bfloat16, as by"
        " torch.arange(..., dtype=x.dtype) or model.to(torch.bfloat16)? Make angles in float32.",
        "angles-in-bfloat16",
    )
