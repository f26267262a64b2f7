"""The feed-forward network (SwiGLU)."""

import math

import numpy as np
import pytest
from adapter import Adapter
from alike import follows_its_device, right_in_each_dtype, same_each_time
from cases import normal
from compare import expect
from difficulties import D_FF_OF_64, TWO_AXES
from initialisation import (
    expect_all_different,
    expect_cut_off_normal,
    fresh_weights,
    in_model,
    is_left_open,
    linear_mistakes,
)
from mistakes import functions as mistakes
from oracles import model as oracles
from probes.modules import construction

WEIGHTS = ["w1_weight", "w2_weight", "w3_weight"]


def swiglu_case(rng, d_model=8, d_ff=64, leading=(2, 3)):
    return {
        "d_model": d_model,
        "d_ff": d_ff,
        "w1_weight": normal(rng, d_ff, d_model),
        "w2_weight": normal(rng, d_model, d_ff),
        "w3_weight": normal(rng, d_ff, d_model),
        "in_features": normal(rng, *leading, d_model),
    }


def values_of(case):
    return [case[name] for name in ("in_features", *WEIGHTS)]


def cases(rng):
    return {
        "one vector": swiglu_case(rng, 4, 10, ()),
        "d_ff below d_model": swiglu_case(rng, 6, 3, (5,)),
        "d_ff equal to d_model": swiglu_case(rng, 5, 5, (4,)),
        "two batch axes": swiglu_case(rng, 4, 10, (2, 3)),
    }


SWIGLU = Adapter(
    "run_swiglu",
    swiglu_case,
    lambda case: oracles.swiglu(*values_of(case)),
    lambda case: mistakes.swiglu(*values_of(case)),
    cases,
)


@pytest.mark.parametrize("d_model", [4, 8, 12])
def test_swiglu_gates_one_branch_by_silu_of_the_other(observe, rng, d_model):
    SWIGLU.examine(observe, swiglu_case(rng, d_model))


@pytest.mark.parametrize(("d_model", "d_ff"), [(4, 10), (6, 3), (5, 5)])
def test_swiglu_takes_any_d_ff(observe, rng, d_model, d_ff):
    plain, case = swiglu_case(rng, d_model), swiglu_case(rng, d_model, d_ff)
    SWIGLU.examine_beyond(observe, plain, D_FF_OF_64, case)


@pytest.mark.parametrize("leading", [(), (5,), (2, 4, 3, 2)], ids=str)
def test_swiglu_takes_any_number_of_axes(observe, rng, leading):
    plain, case = swiglu_case(rng), swiglu_case(rng, leading=leading)
    SWIGLU.examine_beyond(observe, plain, TWO_AXES, case)


def test_swiglu_takes_inputs_that_are_not_contiguous(observe, rng):
    SWIGLU.examine_strided(observe, swiglu_case(rng), "in_features")


def test_swiglu_passes_gradients_to_input_and_weights(observe, rng):
    case, cotangent = swiglu_case(rng, 4), normal(rng, 2, 3, 4)
    SWIGLU.examine_gradients(observe, case, cotangent, ["in_features"], WEIGHTS)


SHAPES = [(256, 96), (96, 256)]


def test_swiglu_starts_from_truncated_normals(observe, rng):
    case = swiglu_case(rng, 96, 256)
    given = [case[name] for name in WEIGHTS]
    fresh = fresh_weights(observe, "run_swiglu", case, SHAPES, given)
    if is_left_open(fresh):
        fresh = in_model(observe, rng, "run_swiglu", (256, 96))
    for weight in fresh:
        d_out, d_in = weight.shape
        mistakes = linear_mistakes(d_in, d_out)
        expect_cut_off_normal(weight, math.sqrt(2 / 352), "run_swiglu", mistakes)


def test_swiglu_starts_with_every_weight_drawn_by_itself(observe, rng):
    for module in observe(construction, function="run_swiglu", arguments=swiglu_case(rng, 96, 256)):
        fresh = [weight["values"] for weight in module["parameters"]]
        fresh = [w for w in fresh if w.shape in SHAPES]
        is_empty = [bool(np.isnan(weight).any()) for weight in fresh]
        expect(
            not module["is_loading"] or all(is_empty) or not any(is_empty),
            f"run_swiglu: nothing is written to {sum(is_empty)} of {len(fresh)} fresh weights",
            "wrong-initialisation",
        )
        expect_all_different(fresh, "run_swiglu", "is the generator seeded in a constructor?")


test_output_is_the_same_each_time = same_each_time(SWIGLU)
test_module_goes_to_another_device_as_a_whole = follows_its_device(SWIGLU)
# Nothing that overflows in exp: that is asked of SiLU.
test_swiglu_is_right_in_each_dtype = right_in_each_dtype(
    SWIGLU, lambda rng: swiglu_case(rng) | {"in_features": normal(rng, 2, 3, 8) / 3}
)
