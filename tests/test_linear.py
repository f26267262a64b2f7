"""The linear layer."""

import math

import pytest
from adapter import Adapter
from alike import follows_its_device, right_in_each_dtype, same_each_time
from cases import normal
from difficulties import NOT_EMPTY, TWO_AXES
from initialisation import (
    expect_cut_off_normal,
    fresh_weights,
    in_model,
    is_left_open,
    linear_mistakes,
)
from mistakes import functions as mistakes
from oracles import model as oracles


def linear_case(rng, d_in=6, d_out=4, leading=(2, 3)):
    return {
        "d_in": d_in,
        "d_out": d_out,
        "weights": normal(rng, d_out, d_in),
        "in_features": normal(rng, *leading, d_in),
    }


def cases(rng):
    return {
        "one vector": linear_case(rng, 6, 4, ()),
        "more outputs than inputs": linear_case(rng, 3, 7, (4,)),
        "fewer outputs than inputs": linear_case(rng, 9, 4, (4,)),
        "as many outputs as inputs": linear_case(rng, 5, 5, (3,)),
        "two batch axes": linear_case(rng, 6, 4, (2, 3)),
    }


class LinearLayer(Adapter):
    def answers(self, case, got):
        return mistakes.linear_layer(case["in_features"], case["weights"], got)


LINEAR = LinearLayer(
    "run_linear",
    linear_case,
    lambda case: oracles.linear(case["in_features"], case["weights"]),
    cases=cases,
)


@pytest.mark.parametrize(("d_in", "d_out"), [(6, 4), (5, 5), (2, 7)])
def test_linear_multiplies_the_last_axis(observe, rng, d_in, d_out):
    LINEAR.examine(observe, linear_case(rng, d_in, d_out))


@pytest.mark.parametrize("leading", [(), (5,), (2, 4, 3, 2)], ids=str)
def test_linear_takes_any_number_of_axes(observe, rng, leading):
    plain, case = linear_case(rng), linear_case(rng, leading=leading)
    LINEAR.examine_beyond(observe, plain, TWO_AXES, case)


def test_linear_takes_an_empty_batch(observe, rng):
    plain, case = linear_case(rng), linear_case(rng, leading=(0, 3))
    LINEAR.examine_beyond(observe, plain, NOT_EMPTY, case)


def test_linear_takes_inputs_that_are_not_contiguous(observe, rng):
    LINEAR.examine_strided(observe, linear_case(rng), "in_features", "weights")


def test_linear_passes_gradients_to_input_and_weight(observe, rng):
    case, cotangent = linear_case(rng, 4, 3), normal(rng, 2, 3, 3)
    LINEAR.examine_gradients(observe, case, cotangent, ["in_features"], ["weights"])


@pytest.mark.parametrize(("d_in", "d_out"), [(300, 100), (128, 256), (150, 150)])
def test_linear_starts_from_a_truncated_normal(observe, rng, d_in, d_out):
    case = linear_case(rng, d_in, d_out)
    sigma, mistakes = math.sqrt(2 / (d_in + d_out)), linear_mistakes(d_in, d_out)
    fresh = fresh_weights(observe, "run_linear", case, [(d_out, d_in)], [case["weights"]])
    if is_left_open(fresh):
        fresh, mistakes = in_model(observe, rng, "run_linear", (256, 96)), {}
        sigma = math.sqrt(2 / 352)
    for weight in fresh:
        expect_cut_off_normal(weight, sigma, "run_linear", mistakes)


test_output_is_the_same_each_time = same_each_time(LINEAR)
test_module_goes_to_another_device_as_a_whole = follows_its_device(LINEAR)
test_linear_is_right_in_each_dtype = right_in_each_dtype(LINEAR, is_small=True)
