"""Rotary position embedding."""

import functools

import numpy as np
import pytest
from adapter import Adapter
from alike import (
    follows_its_device,
    keeps_tables_out_of_the_state,
    right_in_each_dtype,
    same_each_time,
)
from cases import normal
from compare import expect, expect_close, noting, runs
from difficulties import ONE_BATCH_AXIS, OTHER_SETTINGS, OTHER_SIZES, OTHER_TABLE, ROWS_OF_POSITIONS
from mistakes import attention as mistakes
from oracles import model as oracles
from probes.model import attempt, forward_if_supported


def rope_case(rng, leading=(2,), positions=range(5), d_k=4, theta=100.0, max_seq_len=16):
    positions = np.asarray(positions)
    return {
        "d_k": d_k,
        "theta": theta,
        "max_seq_len": max_seq_len,
        "in_query_or_key": normal(rng, *leading, positions.shape[-1], d_k),
        "token_positions": positions,
    }


def cases(rng):
    each_row = np.stack([rng.permutation(16)[:5] for _ in range(3)])
    draw = functools.partial(rope_case, rng, d_k=8)
    return {
        "one pair": draw((), np.arange(5), d_k=2),
        "four pairs": draw((2,), np.arange(6)),
        "five pairs": draw((2,), np.arange(6), d_k=10),
        "heads and batch": draw((2, 3), np.arange(4)),
        "theta=10000": draw((2,), np.arange(6), theta=10000.0),
        "positions 3 to 6": draw((2,), [3, 4, 5, 6]),
        "positions out of order": draw((2,), [5, 0, 2, 9]),
        "positions that repeat": draw((2,), [15, 15, 0, 0]),
        "positions for each batch row": draw((3,), each_row),
        "positions up to 2047": draw((2,), [0, 511, 1777, 2047], max_seq_len=2048),
    }


def values_of(case):
    return [case[name] for name in ("in_query_or_key", "token_positions", "theta")]


ROPE = Adapter(
    "run_rope",
    rope_case,
    lambda case: oracles.rope(*values_of(case)),
    lambda case: mistakes.rope(*values_of(case)),
    cases,
    of_trials=lambda label: 3e-4 if label.endswith("2047") else 1e-5,
)


@pytest.mark.parametrize("length", [4, 5, 9])
def test_rope_turns_pairs(observe, rng, length):
    ROPE.examine(observe, rope_case(rng, positions=range(length)))


@pytest.mark.parametrize("leading", [(), (2, 3)], ids=str)
def test_rope_takes_any_number_of_axes(observe, rng, leading):
    ROPE.examine_beyond(observe, rope_case(rng), ONE_BATCH_AXIS, rope_case(rng, leading))


@pytest.mark.parametrize("d_k", [2, 8, 10])
def test_rope_takes_any_d_k(observe, rng, d_k):
    ROPE.examine_beyond(observe, rope_case(rng), OTHER_SETTINGS, rope_case(rng, d_k=d_k))


@pytest.mark.parametrize("theta", [10.0, 10000.0, 500000.0])
def test_rope_uses_the_given_theta(observe, rng, theta):
    ROPE.examine_beyond(observe, rope_case(rng), OTHER_SETTINGS, rope_case(rng, theta=theta))


@pytest.mark.parametrize("positions", [[3, 4, 5, 6], [5, 0, 2, 9], [1, 1, 7, 1], [15, 15, 0, 0]])
def test_rope_follows_the_token_positions(observe, rng, positions):
    ROPE.examine(observe, rope_case(rng, positions=positions))


def test_rope_reaches_the_last_position(observe, rng):
    case = rope_case(rng, positions=range(16))
    plain = {**case, "token_positions": np.maximum(np.arange(16) - 1, 0)}
    difference = "without the last position; max_seq_len - 1 is allowed"
    ROPE.examine_beyond(observe, plain, difference, case)


@pytest.mark.parametrize("positions", [[0], [3]], ids=str)
def test_rope_takes_one_position(observe, rng, positions):
    plain, case = rope_case(rng), rope_case(rng, positions=positions)
    ROPE.examine_beyond(observe, plain, OTHER_SIZES, case)


def test_rope_of_one_call_does_not_depend_on_another(observe, rng):
    cases = [
        rope_case(rng, (2,), positions, d_k, theta, max_seq_len)
        for positions, d_k, theta, max_seq_len in [
            ([0, 1, 2], 8, 100.0, 16),
            ([0, 1, 2], 8, 1000.0, 16),
            ([5, 9], 4, 1000.0, 16),
            ([17, 3, 30], 8, 100.0, 32),
            ([0, 1, 2], 8, 100.0, 16),
        ]
    ]
    ROPE.examine_in_turns(observe, cases, OTHER_TABLE)


@pytest.mark.parametrize("rows", [1, 3])
def test_rope_takes_rows_of_positions(observe, rng, rows):
    positions = np.stack([rng.permutation(5) for _ in range(rows)])
    plain, case = rope_case(rng), rope_case(rng, (3,), positions)
    ROPE.examine_beyond(observe, plain, ROWS_OF_POSITIONS, case)


def test_rope_shares_rows_of_positions_between_heads(observe, rng):
    ROPE.examine(observe, rope_case(rng))
    aside = functools.partial(observe, aside=True)
    # Whoever takes exactly one batch axis has no heads to share rows between.
    if runs(lambda: ROPE.examine(aside, rope_case(rng, (3, 2)))):
        positions = np.stack([rng.permutation(5) for _ in range(3)])[:, None]
        with noting(ROWS_OF_POSITIONS):
            ROPE.examine(observe, rope_case(rng, (3, 2), positions))


def test_rope_keeps_its_angles_exact_far_from_the_start(observe, rng):
    positions = np.array([0, 511, 1000, 1777, 2047])
    # A float32 angle of 2047 is exact to 1e-4.
    case = rope_case(rng, (2,), positions, d_k=8, theta=10000.0, max_seq_len=2048)
    ROPE.examine(observe, case, tolerance=3e-4)


def test_rope_takes_inputs_that_are_not_contiguous(observe, rng):
    ROPE.examine_strided(observe, rope_case(rng), "in_query_or_key", "token_positions")


def test_rope_turns_bfloat16_by_exact_angles(observe, rng):
    case = rope_case(rng, (2,), [0, 7, 501, 1003, 2047], 8, 100.0, 2048)
    case["in_query_or_key"] = oracles.rounded(case["in_query_or_key"], "bfloat16")
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
        ROPE.right(case),
        "run_rope",
        dtypes=["bfloat16", "float32", "float64"],
        tolerance=2e-2,
        hint="If float32 is right: are angles computed in bfloat16? It cannot hold 2047.",
    )


def test_rope_passes_the_gradient_to_its_input(observe, rng):
    case, cotangent = rope_case(rng), normal(rng, 2, 5, 4)
    seen = ROPE.examine_gradients(observe, case, cotangent, ["in_query_or_key"])
    expect(
        seen["learned_numbers"] == 0,
        "run_rope has learned parameters: its angles are fixed, keep them in buffers",
    )


def test_rope_refuses_an_odd_d_k(observe, rng):
    possible = rope_case(rng)
    ROPE.examine(observe, possible)  # Who answers nothing rightly refuses nothing.
    case = rope_case(rng, d_k=5)
    raised = observe(attempt, function="run_rope", arguments=case, possible=possible)
    expect(raised != "", "run_rope took d_k=5 without an error: pairs need an even d_k")


test_module_goes_to_another_device_as_a_whole = follows_its_device(ROPE)
test_output_is_the_same_each_time = same_each_time(ROPE)
test_rope_is_right_in_each_dtype = right_in_each_dtype(ROPE)
test_rope_tables_stay_out_of_the_state_dict = keeps_tables_out_of_the_state(ROPE, max_seq_len=37)
