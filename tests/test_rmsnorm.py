"""RMSNorm."""

import numpy as np
import pytest
from adapter import Adapter
from alike import follows_its_device, same_each_time
from cases import gain
from compare import (
    expect,
    expect_close,
    expect_gradients,
    expect_learned,
    report,
)
from difficulties import TWO_AXES
from initialisation import fresh_weights, in_model, is_left_open
from mistakes import functions as mistakes
from oracles import model as oracles
from probes.model import backward, forward, forward_if_supported


def rmsnorm_case(rng, leading=(2, 3), d_model=8, eps=1e-5, scale=10.0, shift=0.5):
    # At this size eps makes no difference.
    x = shift + rng.standard_normal((*leading, d_model))
    return {
        "d_model": d_model,
        "eps": eps,
        "weights": gain(rng, d_model),
        "in_features": (scale * x).astype(np.float32),
    }


def cases(rng):
    return {
        "one vector": rmsnorm_case(rng, (), scale=1.0),
        "a batch of 4": rmsnorm_case(rng, (4,), scale=1.0),
        "as many rows as coordinates": rmsnorm_case(rng, (8,), scale=1.0),
        "two batch axes": rmsnorm_case(rng, (2, 3), d_model=5, scale=1.0),
        "another d_model": rmsnorm_case(rng, (3,), d_model=12, scale=1.0, shift=0),
        "eps=1e-2, mean square 1e-2": rmsnorm_case(rng, (3,), eps=1e-2, scale=0.1),
        "eps=1e-5, mean square 1e-5": rmsnorm_case(rng, (3,), eps=1e-5, scale=3e-3),
        "eps=1e-7, mean square 1e-7": rmsnorm_case(rng, (3,), eps=1e-7, scale=3e-4),
        "large inputs": rmsnorm_case(rng, (3,), scale=1e3),
    }


RMSNORM = Adapter(
    "run_rmsnorm",
    rmsnorm_case,
    lambda case: oracles.rmsnorm(case["in_features"], case["weights"], case["eps"]),
    lambda case: mistakes.rms_norm(case["in_features"], case["weights"], case["eps"]),
    cases,
)


@pytest.mark.parametrize("leading", [(2, 3), (4, 5), (8, 8)], ids=str)
def test_rmsnorm_divides_by_the_root_mean_square(observe, rng, leading):
    RMSNORM.examine(observe, rmsnorm_case(rng, leading))


@pytest.mark.parametrize("leading", [(), (4,), (2, 4, 3, 2)], ids=str)
def test_rmsnorm_takes_any_number_of_axes(observe, rng, leading):
    plain, case = rmsnorm_case(rng), rmsnorm_case(rng, leading)
    RMSNORM.examine_beyond(observe, plain, TWO_AXES, case)


@pytest.mark.parametrize("eps", [1e-2, 1e-5, 1e-6, 1e-8])
def test_rmsnorm_adds_the_given_eps_inside_the_root(observe, rng, eps):
    scale = eps**0.5  # The mean square and eps are equally large: any other place of eps shows.
    RMSNORM.examine(observe, rmsnorm_case(rng, eps=eps, scale=scale), hint="Is eps in its place?")


def test_rmsnorm_keeps_a_zero_vector_at_zero(observe, rng):
    case = rmsnorm_case(rng)
    case["in_features"][1, 1] = 0
    RMSNORM.examine(observe, case)


@pytest.mark.parametrize("scale", [1e-3, 1e3, 1e6])
def test_rmsnorm_is_exact_for_inputs_of_any_size(observe, rng, scale):
    RMSNORM.examine(observe, rmsnorm_case(rng, scale=scale))


def test_rmsnorm_of_each_vector_is_its_own(observe, rng):
    case = rmsnorm_case(rng, (4, 3), scale=1.0)
    case["in_features"] *= np.array([1, 100, 0.01, 10], np.float32)[:, None, None]
    RMSNORM.examine(observe, case)


def test_rmsnorm_of_one_coordinate_is_nearly_its_sign(observe, rng):
    RMSNORM.examine(observe, rmsnorm_case(rng, d_model=1, scale=1.0))


def test_rmsnorm_takes_inputs_that_are_not_contiguous(observe, rng):
    RMSNORM.examine_strided(observe, rmsnorm_case(rng), "in_features")


@pytest.mark.parametrize("weights_dtype", ["float32", "same"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_rmsnorm_computes_in_float32_and_returns_the_dtype_of_its_input(
    observe, rng, dtype, weights_dtype
):
    case = rmsnorm_case(rng, (4, 6), d_model=4096)
    case["in_features"] = oracles.rounded(case["in_features"], dtype)
    case["weights"] = oracles.rounded(case["weights"], dtype)
    dtypes = {"in_features": dtype}
    if weights_dtype == "same":
        dtypes["weights"] = dtype
    seen = observe(forward, function="run_rmsnorm", arguments=case, dtypes=dtypes)["output"]
    expected = RMSNORM.right(case)
    one_rounding = {"bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype]
    # Gain before or after the cast: two roundings.
    expect_close(seen, expected, "run_rmsnorm", dtypes=dtype, tolerance=2 * one_rounding)
    # Roundings of single values average out over a row; a rounded mean shifts all of it.
    ratio = np.sum(seen["values"] * expected, -1) / np.sum(expected**2, -1)
    shift = float(np.max(np.abs(ratio - 1)))
    if shift >= one_rounding / 8:
        finding = f"run_rmsnorm of {dtype}: whole rows are off by up to {shift:.1e} of their length"
        cause = (
            "squares, their mean or its root are kept in low precision: compute in float32 and cast"
            " only the result back"
        )
        is_right_in_float32 = all(trial.is_right for trial in RMSNORM.trials(observe))
        report(finding, [cause] if is_right_in_float32 else [], "")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rmsnorm_keeps_the_dtype(observe, rng, dtype):
    case = rmsnorm_case(rng)
    dtypes = dict.fromkeys(["in_features", "weights"], dtype)
    seen = observe(forward_if_supported, function="run_rmsnorm", arguments=case, dtypes=dtypes)
    if seen is None:
        return
    expected = RMSNORM.right(case)
    expect_close(seen["output"], expected, "run_rmsnorm", dtypes=dtype, tolerance=1e-5)


def test_rmsnorm_does_not_overflow_in_float16(observe, rng):
    case = rmsnorm_case(rng, scale=1000.0)
    case["in_features"] = oracles.rounded(case["in_features"], "float16")
    seen = observe(
        forward,
        function="run_rmsnorm",
        arguments=case,
        dtypes={"in_features": "float16"},
    )["output"]
    expected = RMSNORM.right(case)
    expect_close(
        seen,
        expected,
        "run_rmsnorm",
        dtypes="float16",
        tolerance=2e-3,
        hint="1000 squared is more than float16 can hold: compute the squares in float32.",
    )


@pytest.mark.parametrize("scale", [1.0, 3e-3])
def test_rmsnorm_passes_gradients_to_input_and_gain(observe, rng, scale):
    case = rmsnorm_case(rng, d_model=5, scale=scale)
    x, weight, eps = case["in_features"], case["weights"], case["eps"]
    cotangent = rng.standard_normal((2, 3, 5)).astype(np.float32)
    seen = observe(
        backward,
        function="run_rmsnorm",
        arguments=case,
        cotangent=cotangent,
        inputs=["in_features"],
        weights=["weights"],
    )
    expect_learned(seen, [weight], "run_rmsnorm")
    seen = seen["gradients"]
    root = np.sqrt(np.mean(oracles.wide(x) ** 2, -1, keepdims=True) + eps)
    by_x = scale_free_gradient(x / scale, weight, eps / scale**2, cotangent) / scale
    by_weight = oracles.gradient(lambda z: oracles.rmsnorm(x, z, eps), weight, cotangent)
    expect_gradients(
        seen,
        {"in_features": by_x, "weights": by_weight},
        "run_rmsnorm",
        mistakes=lambda: {
            "the root mean square is detached": cotangent * oracles.gain(weight) / root
        },
        trials=lambda: RMSNORM.trials(observe),
        tolerance=2e-5,
    )


def scale_free_gradient(x, weight, eps, cotangent):
    """Differentiate at a size that suits differences: norm(s x, s^2 eps) = norm(x, eps)."""
    return oracles.gradient(lambda z: oracles.rmsnorm(z, weight, eps), x, cotangent)


def test_rmsnorm_starts_from_a_gain_of_one(observe, rng):
    case = rmsnorm_case(rng, d_model=48)
    fresh = fresh_weights(observe, "run_rmsnorm", case, [(48,)], [case["weights"]])
    if is_left_open(fresh):
        fresh = in_model(observe, rng, "run_rmsnorm", (96,))
    for weight in fresh:
        expect(
            bool(np.all(weight == oracles.fresh_weight())),
            f"run_rmsnorm: a fresh weight is {weight[:3].tolist()} ..., expected"
            f" {oracles.fresh_weight():g}",
            "wrong-initialisation",
        )


test_output_is_the_same_each_time = same_each_time(RMSNORM)
test_module_goes_to_another_device_as_a_whole = follows_its_device(RMSNORM)
