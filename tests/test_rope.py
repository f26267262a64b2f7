"""Rotary position embedding."""

import functools

import numpy as np
import pytest
from compare import expect, expect_close, expect_gradients, expect_unchanged, noting, runs
from difficulties import (
    CONTIGUOUS,
    NOT_EMPTY,
    ONE_BATCH_AXIS,
    OTHER_SETTINGS,
    OTHER_SIZES,
    ROWS_OF_POSITIONS,
)
from mistakes import attention as mistakes
from oracles import model as oracles
from probes.model import (
    AMBIGUOUS,
    attempt,
    backward,
    forward,
    forward_if_supported,
    forward_in_turns,
)
from trials import ask, once

pytestmark = pytest.mark.problem("rope")


def rope_case(rng, leading=(2,), positions=range(5), d_k=4, theta=100.0, max_seq_len=16):
    positions = np.asarray(positions)
    x = rng.standard_normal((*leading, positions.shape[-1], d_k)).astype(np.float32)
    return {
        "d_k": d_k,
        "theta": theta,
        "max_seq_len": max_seq_len,
        "in_query_or_key": x,
        "token_positions": positions,
    }


def larger_case(rng, leading, positions, d_k=8, theta=10000.0, max_seq_len=16):
    return rope_case(rng, leading, positions, d_k, theta, max_seq_len)


@once
def trials(observe):
    rng = np.random.default_rng(0)
    each_row = np.stack([rng.permutation(16)[:5] for _ in range(3)])
    rope_case = functools.partial(larger_case, rng, theta=100.0)
    for label, case in {
        "one pair": rope_case((), np.arange(5), d_k=2),
        "four pairs": rope_case((2,), np.arange(6)),
        "five pairs": rope_case((2,), np.arange(6), d_k=10),
        "heads and batch": rope_case((2, 3), np.arange(4)),
        "theta=10000": rope_case((2,), np.arange(6), theta=10000.0),
        "positions 3 to 6": rope_case((2,), [3, 4, 5, 6]),
        "positions out of order": rope_case((2,), [5, 0, 2, 9]),
        "positions that repeat": rope_case((2,), [15, 15, 0, 0]),
        "positions for each batch row": rope_case((3,), each_row),
        "positions up to 2047": rope_case((2,), [0, 511, 1777, 2047], max_seq_len=2048),
    }.items():
        arguments = case["in_query_or_key"], case["token_positions"], case["theta"]
        yield ask(
            observe,
            label,
            oracles.rope(*arguments),
            mistakes.rope(*arguments),
            tolerance=3e-4 if label.endswith("2047") else 1e-5,
            probe=forward,
            function="run_rope",
            arguments=case,
        )


def examine(observe, case, strided=(), **options):
    arguments = case["in_query_or_key"], case["token_positions"], case["theta"]
    seen = observe(forward, function="run_rope", arguments=case, strided=strided)
    expect_close(
        seen["output"],
        oracles.rope(*arguments),
        "run_rope",
        mistakes=lambda: mistakes.rope(*arguments),
        trials=lambda: trials(observe),
        **options,
    )
    expect_unchanged(seen["changed"], "run_rope")


@pytest.mark.parametrize("length", [4, 5, 9])
def test_rope_turns_pairs(observe, rng, length):
    examine(observe, rope_case(rng, positions=range(length)))


@pytest.mark.parametrize("leading", [(), (2, 3)], ids=str)
def test_rope_takes_any_number_of_axes(observe, rng, leading):
    examine(observe, rope_case(rng))
    with noting(ONE_BATCH_AXIS):
        examine(observe, rope_case(rng, leading))


@pytest.mark.parametrize("d_k", [2, 8, 10])
def test_rope_takes_any_d_k(observe, rng, d_k):
    examine(observe, rope_case(rng))
    with noting(OTHER_SETTINGS):
        examine(observe, rope_case(rng, d_k=d_k))


@pytest.mark.parametrize("theta", [10.0, 10000.0, 500000.0])
def test_rope_uses_the_given_theta(observe, rng, theta):
    examine(observe, rope_case(rng))
    with noting(OTHER_SETTINGS):
        examine(observe, rope_case(rng, theta=theta))


@pytest.mark.parametrize("positions", [[3, 4, 5, 6], [5, 0, 2, 9], [1, 1, 7, 1], [15, 15, 0, 0]])
def test_rope_follows_the_token_positions(observe, rng, positions):
    examine(observe, rope_case(rng, positions=positions))


def test_rope_reaches_the_last_position(observe, rng):
    case = rope_case(rng, positions=range(16))
    examine(observe, {**case, "token_positions": np.maximum(np.arange(16) - 1, 0)})
    with noting("without the last position; max_seq_len - 1 is allowed"):
        examine(observe, case)


@pytest.mark.parametrize("positions", [[0], [3]], ids=str)
def test_rope_takes_one_position(observe, rng, positions):
    examine(observe, rope_case(rng))
    with noting(OTHER_SIZES):
        examine(observe, rope_case(rng, positions=positions))


def test_rope_takes_an_empty_batch(observe, rng):
    examine(observe, rope_case(rng))
    case = rope_case(rng, (0,))
    how = {"function": "run_rope", "complaints": AMBIGUOUS}
    with noting(NOT_EMPTY):
        seen = observe(forward_if_supported, arguments=case, **how)
    if seen is not None:
        expect_close(seen["output"], case["in_query_or_key"], "run_rope")


def test_rope_of_one_call_does_not_depend_on_another(observe, rng):
    cases = [
        rope_case(rng, leading, positions, d_k, theta, max_seq_len)
        for leading, positions, d_k, theta, max_seq_len in [
            ((2,), [0, 1, 2], 8, 100.0, 16),
            ((2,), [0, 1, 2], 8, 1000.0, 16),
            ((2,), [5, 9], 4, 1000.0, 16),
            ((2,), [17, 3, 30], 8, 100.0, 32),
            ((2,), [0, 1, 2], 8, 100.0, 16),
        ]
    ]
    for case, seen in zip(
        cases, observe(forward_in_turns, function="run_rope", cases=cases), strict=True
    ):
        expect_close(
            seen["output"],
            oracles.rope(case["in_query_or_key"], case["token_positions"], case["theta"]),
            "run_rope, called several times,",
            hint="If a call alone is right: is a table of another theta, d_k or length kept?",
        )


@pytest.mark.parametrize("rows", [1, 3])
def test_rope_takes_rows_of_positions(observe, rng, rows):
    examine(observe, rope_case(rng))
    positions = np.stack([rng.permutation(5) for _ in range(rows)])
    with noting(ROWS_OF_POSITIONS):
        examine(observe, rope_case(rng, (3,), positions))


def test_rope_shares_rows_of_positions_between_heads(observe, rng):
    examine(observe, rope_case(rng))
    aside = functools.partial(observe, aside=True)
    # Whoever takes exactly one batch axis has no heads to share rows between.
    if runs(lambda: examine(aside, rope_case(rng, (3, 2)))):
        positions = np.stack([rng.permutation(5) for _ in range(3)])[:, None]
        with noting(ROWS_OF_POSITIONS):
            examine(observe, rope_case(rng, (3, 2), positions))


def test_rope_keeps_its_angles_exact_far_from_the_start(observe, rng):
    positions = np.array([0, 511, 1000, 1777, 2047])
    # A float32 angle of 2047 is exact to 1e-4.
    case = rope_case(rng, (2,), positions, d_k=8, theta=10000.0, max_seq_len=2048)
    examine(observe, case, tolerance=3e-4)


def test_rope_takes_inputs_that_are_not_contiguous(observe, rng):
    case = rope_case(rng)
    examine(observe, case)
    with noting(CONTIGUOUS):
        examine(observe, case, strided=["in_query_or_key", "token_positions"])


def test_rope_turns_bfloat16_by_exact_angles(observe, rng):
    case = rope_case(rng, (2,), [0, 7, 501, 1003, 2047], 8, 100.0, 2048)
    x = case["in_query_or_key"] = oracles.rounded(case["in_query_or_key"], "bfloat16")
    seen = observe(
        forward_if_supported,
        function="run_rope",
        arguments=case,
        dtypes={"in_query_or_key": "bfloat16"},
    )
    if seen is None:
        return  # Refusing a dtype is free, answering wrongly is not.
    expect_close(
        seen["output"],
        oracles.rope(x, case["token_positions"], case["theta"]),
        "run_rope",
        dtypes=["bfloat16", "float32", "float64"],
        tolerance=2e-2,
        hint="If float32 is right: are angles computed in bfloat16? It cannot hold 2047.",
    )


def test_rope_passes_the_gradient_to_its_input(observe, rng):
    case = rope_case(rng)
    cotangent = rng.standard_normal((2, 5, 4)).astype(np.float32)
    seen = observe(
        backward,
        function="run_rope",
        arguments=case,
        cotangent=cotangent,
        inputs=["in_query_or_key"],
    )
    expected = oracles.gradient(
        lambda z: oracles.rope(z, case["token_positions"], case["theta"]),
        case["in_query_or_key"],
        cotangent,
    )
    expect_gradients(seen["gradients"], {"in_query_or_key": expected}, "run_rope")
    expect(
        seen["learned"] == 0,
        "run_rope has learned parameters: its angles are fixed, keep them in buffers",
    )


def test_rope_refuses_an_odd_d_k(observe, rng):
    possible = rope_case(rng)
    examine(observe, possible)  # Who answers nothing rightly refuses nothing.
    case = rope_case(rng, d_k=5)
    raised = observe(attempt, function="run_rope", arguments=case, possible=possible)
    expect(raised != "", "run_rope took d_k=5 without an error: pairs need an even d_k")
