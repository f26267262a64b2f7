"""Softmax."""

import numpy as np
import pytest
from adapter import Adapter
from alike import right_in_each_dtype, same_each_time
from cases import normal
from mistakes import functions as mistakes
from oracles import model as oracles


def softmax_case(x, dim=-1):
    return {"in_features": x.astype(np.float32), "dim": dim}


def cases(rng):
    return {
        label: softmax_case(x, dim)
        for label, x, dim in [
            ("one axis", 2 * rng.standard_normal(6), 0),
            ("the last of two axes", 3 * rng.standard_normal((3, 5)), -1),
            ("the first of two axes", 3 * rng.standard_normal((4, 5)), 0),
            ("the middle of three axes", 2 * rng.standard_normal((3, 4, 2)), 1),
            ("a square, dim=-1", 2 * rng.standard_normal((4, 4)), -1),
            ("inputs up to 40", np.array([[40, 3, -40, 38], [1, 2, 3, 4]]), -1),
            ("inputs near 300", 300 + rng.integers(-3, 4, (3, 5)), -1),
            (
                "rows of very different size",
                np.array([[500, 501, 499], [1, 2, 3], [-400, -402, 0]]),
                1,
            ),
        ]
    }


SOFTMAX = Adapter(
    "run_softmax",
    lambda rng: softmax_case(normal(rng, 3, 4, 5)),
    lambda case: oracles.softmax(*case.values()),
    lambda case: mistakes.softmax_values(*case.values()),
    cases,
)


def examine(observe, x, dim, **options):
    SOFTMAX.examine(observe, softmax_case(x, dim), **options)


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2, -3])
def test_softmax_sums_to_one_along_dim(observe, rng, dim):
    examine(observe, 2 * normal(rng, 3, 4, 5), dim)


def test_softmax_divides_each_slice_of_a_cube_by_its_own_sum(observe, rng):
    examine(observe, 2 * normal(rng, 4, 4, 4), -1)


@pytest.mark.parametrize("shape", [(6,), (3, 4), (2, 3, 4, 5)])
def test_softmax_takes_any_number_of_axes(observe, rng, shape):
    plain, case = SOFTMAX.draw(rng), softmax_case(normal(rng, *shape))
    SOFTMAX.examine_beyond(observe, plain, "with three axes; there may be any number", case)


def test_softmax_of_one_score_or_two_equal_ones_is_exact(observe, rng):
    # A constant in the denominator, however small, shows only where nothing is rounded.
    examine(observe, normal(rng, 2, 4, 1), -1, tolerance=2e-7)
    examine(observe, np.zeros((2, 3, 2), np.float32), -1, tolerance=2e-7)


@pytest.mark.parametrize("offset", [-1e4, -200.0, 200.0, 1e4])
def test_softmax_does_not_overflow_or_underflow(observe, rng, offset):
    x = rng.integers(-3, 4, (2, 3, 5)).astype(np.float32) + np.float32(offset)
    examine(observe, x, -1)


@pytest.mark.parametrize("dim", [1, -1])
def test_softmax_takes_the_maximum_of_each_slice(observe, rng, dim):
    x = rng.integers(-3, 4, (2, 4, 4)).astype(np.float32)
    offsets = np.array([0, 500, -500, 1000], np.float32)
    examine(observe, x + (offsets if dim == 1 else offsets[:, None]), dim)


def test_softmax_gives_minus_infinity_probability_zero(observe, rng):
    x = normal(rng, 2, 3, 5)
    x[0, 0, 1] = x[0, 1, :4] = -np.inf
    examine(observe, x, -1)


@pytest.mark.parametrize(
    "row",
    [
        [1e4, -1e4, 1e4, 0],
        [-1e4] * 4,
        [0] * 4,
        [0, 0, 3e4, 0],
        [-3e38, 3e38, 0, 3e38],
        [80, 89, 0, 0],
    ],
    ids=str,
)
def test_softmax_takes_extreme_scores(observe, row):
    examine(observe, np.array([[row, [1, 2, 3, 4]]] * 2, np.float32), -1)


def test_softmax_takes_inputs_that_are_not_contiguous(observe, rng):
    SOFTMAX.examine_strided(observe, softmax_case(normal(rng, 2, 3, 4), 1), "in_features")


@pytest.mark.parametrize("dim", [1, -1])
def test_softmax_has_the_right_gradient(observe, rng, dim):
    x, cotangent = normal(rng, 2, 3, 4), normal(rng, 2, 3, 4)
    weighted = oracles.softmax(x, dim) * cotangent
    of_maximum = np.where(x == x.max(dim, keepdims=True), weighted.sum(dim, keepdims=True), 0)
    SOFTMAX.examine_gradients(
        observe,
        softmax_case(x, dim),
        cotangent,
        ["in_features"],
        mistakes=lambda: {"the denominator is detached": [weighted, weighted - of_maximum]},
        trials=lambda: SOFTMAX.trials(observe),
    )


test_output_is_the_same_each_time = same_each_time(SOFTMAX)
test_softmax_keeps_the_dtype = right_in_each_dtype(
    SOFTMAX,
    lambda rng: softmax_case(20 + 5 * normal(rng, 2, 4, 6)),
    required=["float32", "bfloat16", "float16"],
    is_small=True,
)
