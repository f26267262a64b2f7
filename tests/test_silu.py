"""SiLU."""

import numpy as np
import pytest
from adapter import Adapter
from alike import right_in_each_dtype, same_each_time
from cases import normal
from compare import expect_gradients
from mistakes import functions as mistakes
from oracles import model as oracles
from probes.model import backward


def silu_case(rng, *shape):
    return {"in_features": 3 * normal(rng, *(shape or (2, 3, 4)))}


def cases(rng):
    return {
        label: {"in_features": x.astype(np.float32)}
        for label, x in {
            "inputs in (-1, 1)": rng.uniform(-1, 1, 9),
            "inputs in (-6, 6)": rng.uniform(-6, 6, (3, 5)),
            "positive inputs": rng.uniform(0.1, 5, 7),
            "negative inputs": rng.uniform(-7, -0.1, 7),
            "inputs of 50 to 200": np.array([50.0, 120.0, 200.0, 1.0, -1.0]),
            "inputs of -50 to -200": np.array([-50.0, -120.0, -200.0, 1.0, -1.0]),
        }.items()
    }


SILU = Adapter(
    "run_silu",
    silu_case,
    lambda case: oracles.silu(case["in_features"]),
    lambda case: mistakes.silu_values(case["in_features"]),
    cases,
)


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 2, 2)], ids=str)
def test_silu_is_x_times_sigmoid(observe, rng, shape):
    SILU.examine(observe, silu_case(rng, *shape))


@pytest.mark.parametrize("shape", [(), (8,), (2, 3, 2, 4)], ids=str)
def test_silu_takes_any_number_of_axes(observe, rng, shape):
    plain = silu_case(rng)
    case = {"in_features": np.asarray(3 * rng.standard_normal(shape), np.float32)}
    difference = "with three axes; there may be any number, also none"
    SILU.examine_beyond(observe, plain, difference, case)


def test_silu_takes_inputs_that_are_not_contiguous(observe, rng):
    SILU.examine_strided(observe, silu_case(rng), "in_features")


def test_silu_is_small_but_not_zero_far_below_zero(observe):
    # Few at a time: beside larger values the error of a small one would not show. Further below
    # the form with the hyperbolic tangent, x (1 + tanh(x/2)) / 2, has no digits left.
    for size in (6.4, 8.4, 9.4):
        x = np.array([[[-size, -size - 0.1], [-size - 0.2, -size - 0.3]]] * 2, np.float32)
        SILU.examine(
            observe,
            {"in_features": x},
            tolerance=0.01,
            mistakes=lambda x=x: {"small values are cut off to 0": np.zeros_like(x)},
        )


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("size", [20.0, 100.0, 1e3, 3e4])
def test_silu_does_not_overflow(observe, sign, size):
    x = np.array([[[sign * size, 1], [1.5, sign * size]]] * 2, np.float32)
    SILU.examine(observe, {"in_features": x}, scale=size)


def test_silu_has_the_right_gradient(observe, rng):
    x, cotangent = 2 * normal(rng, 2, 3, 4), normal(rng, 2, 3, 4)
    SILU.examine_gradients(
        observe,
        {"in_features": x},
        cotangent,
        ["in_features"],
        mistakes=lambda: {"the sigmoid is detached": oracles.sigmoid(x) * cotangent},
        trials=lambda: SILU.trials(observe),
    )


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


test_output_is_the_same_each_time = same_each_time(SILU)
test_silu_keeps_the_dtype = right_in_each_dtype(SILU, is_small=True)
