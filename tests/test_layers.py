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
    noting,
)
from difficulties import CONTIGUOUS, D_FF_OF_64, NOT_EMPTY, TWO_AXES
from mistakes import functions as mistakes
from oracles import model as oracles
from probes.model import attempt, backward, forward, forward_if_supported
from trials import ask, once

ROWS = (2, 3)  # A batch and a sequence.
LEADING = [(), (5,), (2, 4, 3, 2)]


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


def examine_linear(observe, case, strided=()):
    seen = observe(forward, function="run_linear", arguments=case, strided=strided)
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
@pytest.mark.parametrize(("d_in", "d_out"), [(6, 4), (5, 5), (2, 7)])
def test_linear_multiplies_the_last_axis(observe, rng, d_in, d_out):
    examine_linear(observe, linear_case(rng, d_in, d_out, ROWS))


@pytest.mark.problem("linear")
@pytest.mark.parametrize("leading", LEADING, ids=str)
def test_linear_takes_any_number_of_axes(observe, rng, leading):
    examine_linear(observe, linear_case(rng, 6, 4, ROWS))
    with noting(TWO_AXES):
        examine_linear(observe, linear_case(rng, 6, 4, leading))


@pytest.mark.problem("linear")
def test_linear_takes_an_empty_batch(observe, rng):
    examine_linear(observe, linear_case(rng, 6, 4, ROWS))
    with noting(NOT_EMPTY):
        examine_linear(observe, linear_case(rng, 6, 4, (0, 3)))


@pytest.mark.problem("linear")
def test_linear_takes_inputs_that_are_not_contiguous(observe, rng):
    case = linear_case(rng, 6, 4, ROWS)
    examine_linear(observe, case)
    with noting(CONTIGUOUS):
        examine_linear(observe, case, strided=["in_features", "weights"])


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


def embedding_case(rng, shape=(2, 6)):
    table = normal(rng, 9, 4)
    # The first and the last id have an item of their own.
    ids = np.asarray(rng.integers(1, 8, shape))
    return {"vocab_size": 9, "d_model": 4, "weights": table, "token_ids": ids}


def examine_embedding(observe, case, strided=()):
    seen = observe(forward, function="run_embedding", arguments=case, strided=strided)
    ids, table = case["token_ids"], case["weights"]
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
@pytest.mark.parametrize("shape", [(2, 6), (4, 5)], ids=str)
def test_embedding_looks_up_one_row_per_id(observe, rng, shape):
    examine_embedding(observe, embedding_case(rng, shape))


@pytest.mark.problem("embedding")
@pytest.mark.parametrize("shape", [(), (7,), (2, 3, 4)], ids=str)
def test_embedding_takes_ids_of_any_number_of_axes(observe, rng, shape):
    examine_embedding(observe, embedding_case(rng))
    with noting(TWO_AXES):
        examine_embedding(observe, embedding_case(rng, shape))


@pytest.mark.problem("embedding")
def test_embedding_takes_an_empty_batch(observe, rng):
    examine_embedding(observe, embedding_case(rng))
    with noting(NOT_EMPTY):
        examine_embedding(observe, embedding_case(rng, (0, 3)))


@pytest.mark.problem("embedding")
def test_embedding_takes_ids_that_are_not_contiguous(observe, rng):
    case = embedding_case(rng)
    examine_embedding(observe, case)
    with noting(CONTIGUOUS):
        examine_embedding(observe, case, strided=["token_ids"])


@pytest.mark.problem("embedding")
@pytest.mark.parametrize("vocab_size", [9, 40_000])
def test_embedding_reaches_the_first_and_the_last_id(observe, rng, vocab_size):
    ids = np.array([[0, vocab_size - 1], [vocab_size - 1, 0]])
    case = embedding_case(rng) | {"vocab_size": vocab_size, "token_ids": ids}
    examine_embedding(observe, case | {"weights": normal(rng, vocab_size, 4)})


@pytest.mark.problem("embedding")
def test_embedding_adds_up_the_gradients_of_a_repeated_id(observe, rng):
    table = normal(rng, 5, 3)
    ids = np.array([[1, 3, 1], [1, 2, 3]])
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
    possible = embedding_case(rng)
    examine_embedding(observe, possible)  # Who answers nothing rightly refuses nothing.
    case = {**possible, "token_ids": np.full((2, 6), 9)}
    raised = observe(attempt, function="run_embedding", arguments=case, possible=possible)
    expect(raised != "", "run_embedding took id 9 of a vocabulary of 9 without an error")


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


def examine_silu(observe, x, strided=()):
    seen = observe(forward, function="run_silu", arguments={"in_features": x}, strided=strided)
    expect_close(
        seen["output"],
        oracles.silu(x),
        "run_silu",
        mistakes=lambda: mistakes.silu_values(x),
        trials=lambda: silu_trials(observe),
    )
    expect_unchanged(seen["changed"], "run_silu")


@pytest.mark.problem("silu")
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 2, 2)], ids=str)
def test_silu_is_x_times_sigmoid(observe, rng, shape):
    examine_silu(observe, 3 * normal(rng, *shape))


@pytest.mark.problem("silu")
@pytest.mark.parametrize("shape", [(), (8,), (2, 3, 2, 4)], ids=str)
def test_silu_takes_any_number_of_axes(observe, rng, shape):
    examine_silu(observe, 3 * normal(rng, 2, 3, 4))
    with noting("with three axes; there may be any number, also none"):
        examine_silu(observe, np.asarray(3 * rng.standard_normal(shape), np.float32))


@pytest.mark.problem("silu")
def test_silu_takes_an_empty_batch(observe, rng):
    examine_silu(observe, 3 * normal(rng, 2, 3, 4))
    with noting(NOT_EMPTY):
        examine_silu(observe, normal(rng, 0, 3, 4))


@pytest.mark.problem("silu")
def test_silu_takes_inputs_that_are_not_contiguous(observe, rng):
    x = normal(rng, 2, 3, 4)
    examine_silu(observe, x)
    with noting(CONTIGUOUS):
        examine_silu(observe, x, strided=["in_features"])


@pytest.mark.problem("silu")
def test_silu_is_small_but_not_zero_far_below_zero(observe):
    # Few at a time: beside larger values the error of a small one would not show. Further below
    # the form with the hyperbolic tangent, x (1 + tanh(x/2)) / 2, has no digits left.
    for size in (6.4, 8.4, 9.4):
        x = np.array([[[-size, -size - 0.1], [-size - 0.2, -size - 0.3]]] * 2, np.float32)
        seen = observe(forward, function="run_silu", arguments={"in_features": x})
        expect_close(
            seen["output"],
            oracles.silu(x),
            f"run_silu at -{size:g} to {x.min():g}",
            tolerance=0.01,
            mistakes=lambda x=x: {"small values are cut off to 0": np.zeros_like(x)},
            trials=lambda: silu_trials(observe),
        )


@pytest.mark.problem("silu")
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("size", [20.0, 100.0, 1e3, 3e4])
def test_silu_does_not_overflow(observe, sign, size):
    x = np.array([[[sign * size, 1], [1.5, sign * size]]] * 2, np.float32)
    seen = observe(forward, function="run_silu", arguments={"in_features": x})
    expect_close(
        seen["output"],
        oracles.silu(x),
        f"run_silu at {sign * size:g}, 1 and 1.5",
        mistakes=lambda: mistakes.silu_values(x),
        trials=lambda: silu_trials(observe),
        scale=size,
    )


@pytest.mark.problem("silu")
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [("float32", 1e-5), ("float64", 1e-6), ("bfloat16", 2e-2), ("float16", 3e-3)],
)
def test_silu_keeps_the_dtype(observe, rng, dtype, tolerance):
    x = oracles.rounded(normal(rng, 2, 3, 5), dtype)
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
    x, cotangent = 2 * normal(rng, 2, 3, 4), normal(rng, 2, 3, 4)
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
    x = np.array([[[size, -size], [1.0, -1.5]]] * 2, np.float32)
    seen = observe(
        backward,
        function="run_silu",
        arguments={"in_features": x},
        cotangent=np.ones(x.shape, np.float32),
        inputs=["in_features"],
    )["gradients"]
    expected = oracles.gradient(oracles.silu, x, np.ones(x.shape))
    values = seen["in_features"]["values"]
    if values is not None and values.shape == x.shape:
        # The formula as the handout writes it, x / (1 + exp(-x)), has no other gradient where exp
        # overflows, which it does at -size alone.
        is_free = np.isnan(values) & (x == -size)
        values[is_free] = expected[is_free]
    name = f"run_silu at {size:g}, {-size:g}, 1 and -1.5"
    expect_gradients(seen, {"in_features": expected}, name)


def swiglu_case(rng, d_model, d_ff=64, leading=ROWS):
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


def examine_swiglu(observe, case, strided=()):
    seen = observe(forward, function="run_swiglu", arguments=case, strided=strided)
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
@pytest.mark.parametrize("d_model", [4, 8, 12])
def test_swiglu_gates_one_branch_by_silu_of_the_other(observe, rng, d_model):
    examine_swiglu(observe, swiglu_case(rng, d_model))


@pytest.mark.problem("positionwise_feedforward")
@pytest.mark.parametrize(("d_model", "d_ff"), [(4, 10), (6, 3), (5, 5)])
def test_swiglu_takes_any_d_ff(observe, rng, d_model, d_ff):
    examine_swiglu(observe, swiglu_case(rng, d_model))
    with noting(D_FF_OF_64):
        examine_swiglu(observe, swiglu_case(rng, d_model, d_ff))


@pytest.mark.problem("positionwise_feedforward")
@pytest.mark.parametrize("leading", LEADING, ids=str)
def test_swiglu_takes_any_number_of_axes(observe, rng, leading):
    examine_swiglu(observe, swiglu_case(rng, 8))
    with noting(TWO_AXES):
        examine_swiglu(observe, swiglu_case(rng, 8, leading=leading))


@pytest.mark.problem("positionwise_feedforward")
def test_swiglu_takes_an_empty_batch(observe, rng):
    examine_swiglu(observe, swiglu_case(rng, 8))
    with noting(NOT_EMPTY):
        examine_swiglu(observe, swiglu_case(rng, 8, leading=(0, 3)))


@pytest.mark.problem("positionwise_feedforward")
def test_swiglu_takes_inputs_that_are_not_contiguous(observe, rng):
    case = swiglu_case(rng, 8)
    examine_swiglu(observe, case)
    with noting(CONTIGUOUS):
        examine_swiglu(observe, case, strided=["in_features"])


@pytest.mark.problem("positionwise_feedforward")
def test_swiglu_passes_gradients_to_input_and_weights(observe, rng):
    case = swiglu_case(rng, 4)
    cotangent = normal(rng, *ROWS, 4)
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
