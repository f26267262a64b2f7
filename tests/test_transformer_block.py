"""The Transformer block."""

import numpy as np
import pytest
from adapter import Adapter
from alike import (
    follows_its_device,
    learns_nothing_else,
    right_in_each_dtype,
    same_each_time,
    takes_a_long_sequence,
)
from cases import block_case, calmed, normal
from difficulties import D_FF_OF_64, OTHER_SETTINGS, OTHER_SIZES
from mistakes import transformer as mistakes
from oracles import model as oracles


def values_of(case):
    return [case[name] for name in ("in_features", "weights", "num_heads", "theta")]


def cases(rng):
    return {
        "one head": block_case(rng, d_model=6, num_heads=1, d_ff=5),
        "two heads": block_case(rng),
        "four heads": block_case(rng, num_heads=4, d_ff=8),
        "one position": block_case(rng, length=1),
        "theta=10000": block_case(rng, theta=10000.0),
        "three rows of nine positions": block_case(rng, 3, 9),
    }


BLOCK = Adapter(
    "run_transformer_block",
    block_case,
    lambda case: oracles.transformer_block(*values_of(case)),
    lambda case: mistakes.transformer_block(*values_of(case)),
    cases,
    tolerance=5e-5,
)


@pytest.mark.parametrize("batch", [2, 3, 4])
def test_block_is_pre_norm_with_two_residuals(observe, rng, batch):
    BLOCK.examine(observe, block_case(rng, batch))


@pytest.mark.parametrize(("d_model", "num_heads"), [(4, 1), (8, 2), (16, 4)])
def test_block_takes_any_number_of_heads(observe, rng, d_model, num_heads):
    BLOCK.examine(observe, block_case(rng, d_model=d_model, num_heads=num_heads))


@pytest.mark.parametrize("d_ff", [5, 8, 20])
def test_block_takes_any_d_ff(observe, rng, d_ff):
    BLOCK.examine_beyond(observe, block_case(rng), D_FF_OF_64, block_case(rng, d_ff=d_ff))


@pytest.mark.parametrize(("batch", "length"), [(1, 5), (2, 1), (1, 1)])
def test_block_takes_one_row_or_position(observe, rng, batch, length):
    BLOCK.examine_beyond(observe, block_case(rng), OTHER_SIZES, block_case(rng, batch, length))


@pytest.mark.parametrize("length", [2, 9, 16])
def test_block_takes_any_length(observe, rng, length):
    BLOCK.examine_beyond(observe, block_case(rng), OTHER_SIZES, block_case(rng, length=length))


@pytest.mark.parametrize(("d_model", "num_heads"), [(6, 1), (8, 4), (12, 2)])
def test_block_takes_any_size_of_heads(observe, rng, d_model, num_heads):
    plain, case = block_case(rng), block_case(rng, d_model=d_model, num_heads=num_heads)
    BLOCK.examine_beyond(observe, plain, OTHER_SETTINGS, case)


@pytest.mark.parametrize("theta", [10.0, 10000.0])
def test_block_uses_the_given_theta(observe, rng, theta):
    BLOCK.examine_beyond(observe, block_case(rng), OTHER_SETTINGS, block_case(rng, theta=theta))


def test_block_takes_inputs_that_are_not_contiguous(observe, rng):
    BLOCK.examine_strided(observe, block_case(rng), "in_features")


def test_block_passes_gradients_to_input_and_every_weight(observe, rng):
    case, cotangent = block_case(rng), normal(rng, 2, 5, 8)
    BLOCK.examine_gradients(
        observe,
        case,
        cotangent,
        ["in_features"],
        tolerance=5e-5,
        mistakes=lambda: mistakes.block_gradient(*values_of(case), cotangent),
        trials=lambda: BLOCK.trials(observe),
    )
    BLOCK.examine_slopes(observe, rng, case, cotangent)


def test_block_adds_an_eps_of_1e_5_in_both_norms(observe, rng):
    case, small = block_case(rng), np.float32(2e-3)
    case["in_features"] *= small  # Its mean square is 4e-6: below the eps of 1e-5.
    case["weights"]["attn.output_proj.weight"] *= small  # What ln2 is given is as small.
    known = {"mistakes": lambda: mistakes.block_eps(*values_of(case)), "trials": tuple}
    BLOCK.examine(observe, case, **known)


test_module_goes_to_another_device_as_a_whole = follows_its_device(BLOCK)
test_module_learns_the_given_weights_and_nothing_else = learns_nothing_else(BLOCK)
test_output_is_the_same_each_time = same_each_time(BLOCK)
test_block_takes_a_long_sequence = takes_a_long_sequence(
    BLOCK, lambda rng: block_case(rng, length=40) | {"max_seq_len": 40}
)
test_block_is_right_in_each_dtype = right_in_each_dtype(BLOCK, lambda rng: calmed(block_case(rng)))
