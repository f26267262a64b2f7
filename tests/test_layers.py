"""Linear, Embedding, SiLU, SwiGLU."""

from dataclasses import replace

import numpy as np
import pytest
from compare import (
    expect,
    expect_close,
    expect_gradients,
    expect_learned,
    expect_unchanged,
)
from mistakes import functions as mistakes
from oracles import model as oracles
from probes.model import attempt, backward, forward, forward_if_supported
from strided import forward_strided
from trials import ask, once

LEADING = [(), (5,), (2, 3), (2, 1, 3, 2), (0, 3)]


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def linear_case(rng, d_in, d_out, leading):
    return {
        "d_in": d_in,
        "d_out": d_out,
        "weights": normal(rng, d_out, d_in),
        "in_features": normal(rng, *leading, d_in),
    }


@once
def linear_trials(observe):
    rng = np.random.default_rng(0)
    for label, case in {
        "one vector": linear_case(rng, 6, 4, ()),
        "more outputs than inputs": linear_case(rng, 3, 7, (4,)),
        "fewer outputs than inputs": linear_case(rng, 9, 4, (4,)),
        "as many outputs as inputs": linear_case(rng, 5, 5, (3,)),
        "two batch axes": linear_case(rng, 6, 4, (2, 3)),
    }.items():
        seen = {}

        def read(answer, seen=seen):
            seen |= answer["output"]
            return answer["output"]["values"]

        x, weight = case["in_features"], case["weights"]
        trial = ask(
            observe,
            label,
            oracles.linear(x, weight),
            {},
            read,
            probe=forward,
            function="run_linear",
            arguments=case,
        )
        yield replace(trial, answers=mistakes.linear_layer(x, weight, seen.get("values")))


@pytest.mark.problem("linear")
@pytest.mark.parametrize("leading", LEADING, ids=str)
@pytest.mark.parametrize(("d_in", "d_out"), [(6, 4), (5, 5), (1, 7)])
def test_linear_multiplies_the_last_axis(observe, rng, d_in, d_out, leading):
    case = linear_case(rng, d_in, d_out, leading)
    seen = observe(forward, function="run_linear", arguments=case)
    x, weight = case["in_features"], case["weights"]
    expect_unchanged(seen["changed"], "run_linear")
    expect_close(
        seen["output"],
        oracles.linear(x, weight),
        "run_linear",
        mistakes=lambda: mistakes.linear_layer(x, weight, seen["output"]["values"]),
        trials=lambda: linear_trials(observe),
    )


@pytest.mark.problem("linear")
def test_linear_takes_inputs_that_are_not_contiguous(observe, rng):
    case = linear_case(rng, 6, 4, (2, 3))
    seen = forward_strided(observe, "run_linear", case, ["in_features", "weights"])
    expected = oracles.linear(case["in_features"], case["weights"])
    expect_close(seen["output"], expected, "run_linear")


@pytest.mark.problem("linear")
def test_linear_passes_gradients_to_input_and_weight(observe, rng):
    case = linear_case(rng, 4, 3, (2, 3))
    x, weight = case["in_features"], case["weights"]
    cotangent = normal(rng, 2, 3, 3)
    seen = observe(
        backward,
        function="run_linear",
        arguments=case,
        cotangent=cotangent,
        inputs=["in_features"],
        weights=["weights"],
    )
    by_x = oracles.gradient(lambda z: oracles.linear(z, weight), x, cotangent)
    by_weight = oracles.gradient(lambda z: oracles.linear(x, z), weight, cotangent)
    expected = {"in_features": by_x, "weights": by_weight}
    expect_gradients(seen["gradients"], expected, "run_linear")
    expect_learned(seen, [weight], "run_linear")


@once
def embedding_trials(observe):
    rng = np.random.default_rng(0)
    for label, ids in {
        "one id": np.asarray(3),
        "a row of ids": rng.integers(1, 8, 6),
        "two axes of ids": rng.integers(1, 8, (3, 4)),
        "id 0": np.array([0, 3, 0]),
        "the last id": np.array([8, 2, 8]),
    }.items():
        table = normal(rng, 9, 4)
        yield ask(
            observe,
            label,
            oracles.embedding(ids, table),
            mistakes.embedding(ids, table),
            tolerance=1e-6,
            probe=forward,
            function="run_embedding",
            arguments={"vocab_size": 9, "d_model": 4, "weights": table, "token_ids": ids},
        )


@pytest.mark.problem("embedding")
@pytest.mark.parametrize("shape", [(), (7,), (2, 3), (2, 1, 4), (0, 3)], ids=str)
def test_embedding_looks_up_one_row_per_id(observe, rng, shape):
    table = normal(rng, 9, 4)
    ids = rng.integers(1, 8, shape)  # The first and the last one have an item of their own.
    case = {"vocab_size": 9, "d_model": 4, "weights": table, "token_ids": np.asarray(ids)}
    seen = observe(forward, function="run_embedding", arguments=case)
    expect_close(
        seen["output"],
        oracles.embedding(ids, table),
        "run_embedding",
        tolerance=1e-7,
        mistakes=lambda: mistakes.embedding(ids, table),
        trials=lambda: embedding_trials(observe),
    )
    expect_unchanged(seen["changed"], "run_embedding")


@pytest.mark.problem("embedding")
def test_embedding_takes_ids_that_are_not_contiguous(observe, rng):
    table, ids = normal(rng, 9, 4), rng.integers(1, 8, (3, 4))
    case = {"vocab_size": 9, "d_model": 4, "weights": table, "token_ids": ids}
    seen = forward_strided(observe, "run_embedding", case, ["token_ids"])
    expect_close(seen["output"], oracles.embedding(ids, table), "run_embedding", tolerance=1e-7)


@pytest.mark.problem("embedding")
def test_embedding_reaches_the_first_and_the_last_id(observe, rng):
    table = normal(rng, 6, 3)
    ids = np.array([0, 5, 0, 5])
    case = {"vocab_size": 6, "d_model": 3, "weights": table, "token_ids": ids}
    seen = observe(forward, function="run_embedding", arguments=case)
    expect_close(
        seen["output"],
        oracles.embedding(ids, table),
        "run_embedding",
        tolerance=1e-7,
        mistakes=lambda: mistakes.embedding(ids, table),
        trials=lambda: embedding_trials(observe),
    )


@pytest.mark.problem("embedding")
def test_embedding_adds_up_the_gradients_of_a_repeated_id(observe, rng):
    table = normal(rng, 5, 3)
    ids = np.array([[1, 4, 1], [1, 0, 4]])
    cotangent = normal(rng, 2, 3, 3)
    seen = observe(
        backward,
        function="run_embedding",
        arguments={"vocab_size": 5, "d_model": 3, "weights": table, "token_ids": ids},
        cotangent=cotangent,
        weights=["weights"],
    )
    expected = oracles.gradient(lambda z: oracles.embedding(ids, z), table, cotangent)
    often = np.maximum(np.bincount(ids.flatten(), minlength=5), 1)[:, None]
    last = np.zeros_like(expected)
    last[ids] = cotangent  # Of several writes to a row the last one stays.
    expect_gradients(
        seen["gradients"],
        {"weights": expected},
        "run_embedding",
        mistakes=lambda: {
            "gradients are divided by how often an id occurs": expected / often,
            "only the last occurrence of an id has a gradient": last,
            "token 0 is taken for padding, it has no gradient": expected
            * (np.arange(5) > 0)[:, None],
        },
        trials=lambda: embedding_trials(observe),
    )
    expect_learned(seen, [table], "run_embedding")


@pytest.mark.problem("embedding")
def test_embedding_refuses_an_id_past_the_vocabulary(observe, rng):
    case = {"vocab_size": 5, "d_model": 3, "weights": normal(rng, 5, 3), "token_ids": np.array([5])}
    possible = {**case, "token_ids": np.array([4])}
    raised = observe(attempt, function="run_embedding", arguments=case, possible=possible)
    expect(raised != "", "run_embedding took id 5 of a vocabulary of 5 without an error")


@once
def silu_trials(observe):
    rng = np.random.default_rng(0)
    for label, x in {
        "inputs in (-1, 1)": rng.uniform(-1, 1, 9),
        "inputs in (-6, 6)": rng.uniform(-6, 6, (3, 5)),
        "positive inputs": rng.uniform(0.1, 5, 7),
        "negative inputs": rng.uniform(-7, -0.1, 7),
        "inputs of 50 to 200": np.array([50.0, 120.0, 200.0, 1.0, -1.0]),
        "inputs of -50 to -200": np.array([-50.0, -120.0, -200.0, 1.0, -1.0]),
    }.items():
        x = x.astype(np.float32)
        yield ask(
            observe,
            label,
            oracles.silu(x),
            mistakes.silu_values(x),
            probe=forward,
            function="run_silu",
            arguments={"in_features": x},
        )


@pytest.mark.problem("silu")
@pytest.mark.parametrize("shape", [(), (8,), (2, 3, 4), (0, 4)], ids=str)
def test_silu_is_x_times_sigmoid(observe, rng, shape):
    x = np.asarray(3 * rng.standard_normal(shape), np.float32)
    seen = observe(forward, function="run_silu", arguments={"in_features": x})
    expect_close(
        seen["output"],
        oracles.silu(x),
        "run_silu",
        mistakes=lambda: mistakes.silu_values(x),
        trials=lambda: silu_trials(observe),
    )
    expect_unchanged(seen["changed"], "run_silu")


@pytest.mark.problem("silu")
def test_silu_takes_inputs_that_are_not_contiguous(observe, rng):
    x = normal(rng, 2, 3, 4)
    seen = forward_strided(observe, "run_silu", {"in_features": x}, ["in_features"])
    expect_close(seen["output"], oracles.silu(x), "run_silu")


@pytest.mark.problem("silu")
def test_silu_is_small_but_not_zero_far_below_zero(observe):
    # Few at a time: beside larger values the error of a small one would not show. Further below
    # the form with the hyperbolic tangent, x (1 + tanh(x/2)) / 2, has no digits left.
    for x in np.array([[-6.5, -6.4], [-8.5, -8.4], [-9.5, -9.4]], np.float32):
        seen = observe(forward, function="run_silu", arguments={"in_features": x})
        expect_close(
            seen["output"],
            oracles.silu(x),
            f"run_silu at {x[0]:g} and {x[1]:g}",
            tolerance=0.01,
            mistakes=lambda x=x: {"small values are cut off to 0": np.zeros_like(x)},
            trials=lambda: silu_trials(observe),
        )


@pytest.mark.problem("silu")
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("size", [20.0, 100.0, 1e3, 3e4])
def test_silu_does_not_overflow(observe, sign, size):
    x = np.array([sign * size, 1], np.float32)
    seen = observe(forward, function="run_silu", arguments={"in_features": x})
    expect_close(
        seen["output"],
        oracles.silu(x),
        f"run_silu at {x[0]:g} and 1",
        mistakes=lambda: mistakes.silu_values(x),
        trials=lambda: silu_trials(observe),
        scale=size,
    )


@pytest.mark.problem("silu")
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-6), ("bfloat16", 2e-2), ("float16", 3e-3)]
)
def test_silu_keeps_the_dtype(observe, rng, dtype, tolerance):
    x = oracles.rounded(normal(rng, 4, 5), dtype)
    seen = observe(
        forward_if_supported,
        function="run_silu",
        arguments={"in_features": x},
        dtypes={"in_features": dtype},
    )
    if seen is None:
        return  # Refusing a dtype is free, answering wrongly is not.
    expect_close(seen["output"], oracles.silu(x), "run_silu", dtypes=dtype, tolerance=tolerance)


@pytest.mark.problem("silu")
def test_silu_has_the_right_gradient(observe, rng):
    x = np.append(2 * normal(rng, 6), np.float32(0))
    cotangent = normal(rng, 7)
    seen = observe(
        backward,
        function="run_silu",
        arguments={"in_features": x},
        cotangent=cotangent,
        inputs=["in_features"],
    )["gradients"]
    expected = oracles.gradient(oracles.silu, x, cotangent)
    expect_gradients(
        seen,
        {"in_features": expected},
        "run_silu",
        mistakes=lambda: {"the sigmoid is detached": oracles.sigmoid(x) * cotangent},
        trials=lambda: silu_trials(observe),
    )


@pytest.mark.problem("silu")
@pytest.mark.parametrize("size", [20.0, 100.0, 1e3])
def test_silu_has_the_right_gradient_for_large_inputs(observe, size):
    x = np.array([size, -size, 1.0], np.float32)
    seen = observe(
        backward,
        function="run_silu",
        arguments={"in_features": x},
        cotangent=np.ones(3, np.float32),
        inputs=["in_features"],
    )["gradients"]
    expected = oracles.gradient(oracles.silu, x, np.ones(3))
    values = seen["in_features"]["values"]
    if values is not None and values.shape == x.shape and np.isnan(values[1]):
        # The formula as the handout writes it, x / (1 + exp(-x)), has no other gradient where exp
        # overflows, which it does at -size alone.
        values[1] = expected[1]
    name = f"run_silu at {size:g}, {-size:g} and 1"
    expect_gradients(seen, {"in_features": expected}, name)


def swiglu_case(rng, d_model, d_ff, leading):
    return {
        "d_model": d_model,
        "d_ff": d_ff,
        "w1_weight": normal(rng, d_ff, d_model),
        "w2_weight": normal(rng, d_model, d_ff),
        "w3_weight": normal(rng, d_ff, d_model),
        "in_features": normal(rng, *leading, d_model),
    }


def swiglu_arguments(case):
    return [case[name] for name in ("in_features", "w1_weight", "w2_weight", "w3_weight")]


@once
def swiglu_trials(observe):
    rng = np.random.default_rng(0)
    for label, case in {
        "one vector": swiglu_case(rng, 4, 10, ()),
        "d_ff below d_model": swiglu_case(rng, 6, 3, (5,)),
        "d_ff equal to d_model": swiglu_case(rng, 5, 5, (4,)),
        "two batch axes": swiglu_case(rng, 4, 10, (2, 3)),
    }.items():
        arguments = swiglu_arguments(case)
        yield ask(
            observe,
            label,
            oracles.swiglu(*arguments),
            mistakes.swiglu(*arguments),
            probe=forward,
            function="run_swiglu",
            arguments=case,
        )


@pytest.mark.problem("positionwise_feedforward")
@pytest.mark.parametrize("leading", LEADING, ids=str)
@pytest.mark.parametrize(("d_model", "d_ff"), [(4, 10), (6, 3), (5, 5)])
def test_swiglu_gates_w3_by_silu_of_w1(observe, rng, d_model, d_ff, leading):
    case = swiglu_case(rng, d_model, d_ff, leading)
    seen = observe(forward, function="run_swiglu", arguments=case)
    arguments = swiglu_arguments(case)
    expect_close(
        seen["output"],
        oracles.swiglu(*arguments),
        "run_swiglu",
        mistakes=lambda: mistakes.swiglu(*arguments),
        trials=lambda: swiglu_trials(observe),
    )
    expect_unchanged(seen["changed"], "run_swiglu")


@pytest.mark.problem("positionwise_feedforward")
def test_swiglu_takes_inputs_that_are_not_contiguous(observe, rng):
    case = swiglu_case(rng, 4, 6, (2, 3))
    seen = forward_strided(observe, "run_swiglu", case, ["in_features"])
    expect_close(seen["output"], oracles.swiglu(*swiglu_arguments(case)), "run_swiglu")


@pytest.mark.problem("positionwise_feedforward")
def test_swiglu_passes_gradients_to_input_and_weights(observe, rng):
    case = swiglu_case(rng, 4, 6, (3,))
    cotangent = normal(rng, 3, 4)
    names = ["w1_weight", "w2_weight", "w3_weight"]
    seen = observe(
        backward,
        function="run_swiglu",
        arguments=case,
        cotangent=cotangent,
        inputs=["in_features"],
        weights=names,
    )
    arguments = swiglu_arguments(case)
    expected = {}
    for place, name in enumerate(["in_features", *names]):

        def vary(z, place=place):
            return oracles.swiglu(*arguments[:place], z, *arguments[place + 1 :])

        expected[name] = oracles.gradient(vary, arguments[place], cotangent)
    expect_gradients(seen["gradients"], expected, "run_swiglu")
    expect_learned(seen, [case[name] for name in names], "run_swiglu")
