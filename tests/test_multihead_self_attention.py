"""Causal multi-head self-attention, without RoPE."""

import pytest
from adapter import Adapter
from alike import follows_its_device, right_in_each_dtype, same_each_time, takes_a_long_sequence
from cases import multihead_case, waves, weights_of
from compare import expect
from difficulties import ONE_BATCH_AXIS, OTHER_SIZES
from mistakes import multihead as mistakes
from oracles import model as oracles
from probes.model import attempt


def values_of(case):
    return case["in_features"], weights_of(case), case["num_heads"]


def cases(rng):
    return {
        label: multihead_case(rng, **options)
        for label, options in {
            "one head": {"d_model": 6, "num_heads": 1},
            "three heads": {},
            "two heads": {"d_model": 8, "num_heads": 2},
            "as many heads as features": {"d_model": 6, "num_heads": 6},
            "no batch axis": {"leading": ()},
            "two batch axes": {"leading": (2, 3)},
            "one position": {"length": 1},
            "nine positions": {"length": 9},
        }.items()
    }


ATTENTION = Adapter(
    "run_multihead_self_attention",
    multihead_case,
    lambda case: oracles.multihead(*values_of(case)),
    lambda case: mistakes.multihead_attention(*values_of(case)),
    cases,
    of_trials=lambda _: 2e-5,
)


@pytest.mark.parametrize("batch", [2, 3])
def test_multihead_attends_causally_in_each_head(observe, rng, batch):
    ATTENTION.examine(observe, multihead_case(rng, (batch,)))


@pytest.mark.parametrize(("d_model", "num_heads"), [(6, 1), (12, 6), (8, 4), (8, 2)])
def test_multihead_takes_any_number_of_heads(observe, rng, d_model, num_heads):
    ATTENTION.examine(observe, multihead_case(rng, d_model=d_model, num_heads=num_heads))


@pytest.mark.parametrize("leading", [(), (2, 3)], ids=str)
def test_multihead_takes_any_number_of_axes(observe, rng, leading):
    plain, case = multihead_case(rng), multihead_case(rng, leading)
    ATTENTION.examine_beyond(observe, plain, ONE_BATCH_AXIS, case)


@pytest.mark.parametrize("length", [2, 9, 12])
def test_multihead_takes_any_length(observe, rng, length):
    plain, case = multihead_case(rng), multihead_case(rng, length=length)
    ATTENTION.examine_beyond(observe, plain, OTHER_SIZES, case)


@pytest.mark.parametrize(("batch", "length"), [(1, 5), (2, 1), (1, 1)])
def test_multihead_takes_one_row_or_position(observe, rng, batch, length):
    plain, case = multihead_case(rng), multihead_case(rng, (batch,), length)
    ATTENTION.examine_beyond(observe, plain, OTHER_SIZES, case)


def test_multihead_takes_inputs_that_are_not_contiguous(observe, rng):
    ATTENTION.examine_strided(observe, multihead_case(rng), "in_features")


def test_multihead_refuses_heads_that_do_not_divide_d_model(observe, rng):
    case = multihead_case(rng, d_model=8, num_heads=3)
    possible = {**case, "num_heads": 2}
    ATTENTION.examine(observe, possible)  # Who answers nothing rightly refuses nothing.
    raised = observe(attempt, function=ATTENTION.name, arguments=case, possible=possible)
    expect(raised != "", f"{ATTENTION.name} took d_model=8 with num_heads=3 without an error")


def test_multihead_passes_gradients_to_input_and_weights(observe, rng):
    case = multihead_case(rng, d_model=4, num_heads=2)
    ATTENTION.examine_gradients(observe, case, *waves(case), tolerance=3e-5)


def test_multihead_of_one_call_does_not_depend_on_another(observe, rng):
    cases = [
        multihead_case(rng, length=length, d_model=d_model, num_heads=num_heads)
        for length, d_model, num_heads in [(5, 12, 3), (9, 12, 3), (3, 12, 2), (5, 8, 4)]
    ]
    hint = "If a call alone is right: is the mask, or are weights of an earlier one kept?"
    ATTENTION.examine_in_turns(observe, cases, hint)


test_module_goes_to_another_device_as_a_whole = follows_its_device(ATTENTION)
test_output_is_the_same_each_time = same_each_time(ATTENTION)
test_multihead_takes_a_long_sequence = takes_a_long_sequence(
    ATTENTION,
    # Where nothing says how long a sequence may be, some make a mask for 64.
    lambda rng: multihead_case(rng, length=40),
)
test_multihead_is_right_in_each_dtype = right_in_each_dtype(
    ATTENTION, lambda rng: multihead_case(rng, d_model=8, num_heads=2)
)
