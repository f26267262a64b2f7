"""Cross-entropy."""

import numpy as np
import pytest
from adapter import Adapter
from alike import as_number, same_each_time
from cases import normal
from compare import (
    AT_LEAST_FLOAT32,
    expect_close,
    expect_gradients,
    expect_learned,
    expect_tensor,
    in_either_form,
    noting,
)
from difficulties import CONTIGUOUS
from mistakes import functions as mistakes
from oracles import model as oracles
from probes.model import backward, forward, forward_if_supported
from trials import ask, once


@once
def trials(observe):
    rng = np.random.default_rng(0)
    for label, logits, targets in [
        ("one row", rng.standard_normal((1, 5)), [3]),
        ("six rows", 2 * rng.standard_normal((6, 7)), [0, 1, 4, 6, 2, 2]),
        ("other six rows", 2 * rng.standard_normal((6, 7)), [1, 1, 4, 5, 3, 2]),
        ("two leading axes", 2 * rng.standard_normal((3, 4, 5)), rng.integers(1, 5, (3, 4))),
        ("three leading axes", rng.standard_normal((2, 3, 2, 5)), rng.integers(0, 5, (2, 3, 2))),
        ("logits up to 40", 20 * rng.standard_normal((4, 5)), [0, 4, 2, 1]),
        ("logits near 300", 300 + rng.integers(-3, 4, (4, 5)), [0, 4, 2, 1]),
        (
            "rows of very different size",
            np.array([[1, 500, 2], [1, 2, 3], [-400, 1, 2]]),
            [0, 1, 2],
        ),
    ]:
        logits, targets = np.asarray(logits, np.float32), np.asarray(targets)
        yield ask(
            observe,
            label,
            oracles.cross_entropy(logits, targets),
            mistakes.cross_entropy_value(logits, targets),
            scale=max(float(np.abs(logits).max()), 1.0) if "near" in label else None,
            tolerance=3e-7 if "near" in label else 1e-5,
            probe=forward,
            function="run_cross_entropy",
            arguments={"inputs": logits, "targets": targets},
        )


def logits_of(rng, *shape):
    return 2 * normal(rng, *shape)


def some_targets(rng, *shape):
    return rng.integers(1, 4, shape)  # The first and the last class have an item of their own.


def flat(logits, targets):
    return {"inputs": logits.reshape(-1, logits.shape[-1]), "targets": targets.reshape(-1)}


def ask_exactly(observe, case, expected, probe=forward, how=None, **options):
    seen = observe(probe, function="run_cross_entropy", arguments=case, **(how or {}))
    if seen is None:
        return
    expect_close(as_number(seen["output"]), expected, "run_cross_entropy", **options)


def examine(observe, logits, targets, **options):
    """Ask with a batch and a sequence axis; whoever takes one axis only may have that.

    Returns:
        The case that was answered.
    """
    targets = np.asarray(targets)
    expected = oracles.cross_entropy(logits, targets)
    options |= {
        "mistakes": lambda: mistakes.cross_entropy_value(logits, targets),
        "trials": lambda: trials(observe),
    }

    def ask(observe, case):
        ask_exactly(observe, case, expected, **options)

    usual = {"inputs": logits, "targets": targets}
    (answered,) = in_either_form(ask, observe, [usual], [flat(logits, targets)])
    return answered


def test_cross_entropy_is_the_mean_over_all_positions(observe, rng):
    for shape in [(2, 3), (4, 2)]:
        examine(observe, logits_of(rng, *shape, 5), some_targets(rng, *shape))


@pytest.mark.parametrize("leading", [(), (6,), (3, 4), (2, 3, 2)], ids=str)
def test_cross_entropy_takes_any_number_of_axes(observe, rng, leading):
    logits, targets = logits_of(rng, 2, 3, 5), some_targets(rng, 2, 3)
    examine(observe, logits, targets)
    logits, targets = logits_of(rng, *leading, 5), np.asarray(some_targets(rng, *leading))
    with noting("with another number of leading axes; there may be any, also none"):
        ask_exactly(
            observe,
            {"inputs": logits, "targets": targets},
            oracles.cross_entropy(logits, targets),
            mistakes=lambda: mistakes.cross_entropy_value(logits, targets),
            trials=lambda: trials(observe),
        )


def test_cross_entropy_returns_a_number_without_axes(observe, rng):
    case = examine(observe, logits_of(rng, 2, 3, 5), some_targets(rng, 2, 3))
    seen = observe(forward, function="run_cross_entropy", arguments=case)["output"]
    expect_tensor(seen, (), "run_cross_entropy", AT_LEAST_FLOAT32)


def test_cross_entropy_reaches_the_first_and_the_last_class(observe, rng):
    examine(observe, logits_of(rng, 2, 2, 5), [[0, 4], [4, 0]])


@pytest.mark.parametrize("offset", [-1e4, 200.0, 1e4])
def test_cross_entropy_does_not_overflow(observe, rng, offset):
    logits = rng.integers(-3, 4, (2, 3, 5)).astype(np.float32) + np.float32(offset)
    examine(observe, logits, some_targets(rng, 2, 3), scale=abs(offset), tolerance=3e-7)


def test_cross_entropy_is_finite_for_a_target_that_is_all_but_impossible(observe, rng):
    logits = logits_of(rng, 2, 3, 5)
    logits[..., 2] += 500
    examine(observe, logits, [[1, 1, 3]] * 2)


def test_cross_entropy_takes_the_maximum_of_each_row(observe, rng):
    logits = rng.integers(-3, 4, (2, 4, 5)).astype(np.float32)
    logits += np.array([0, 500, -500, 1000], np.float32)[:, None]
    examine(observe, logits, some_targets(rng, 2, 4), scale=1000.0, tolerance=3e-7)


def test_cross_entropy_of_a_sure_right_answer_is_almost_zero(observe):
    logits = np.zeros((2, 3, 4), np.float32)
    logits[..., 1] = 12
    examine(observe, logits, np.ones((2, 3), int), scale=12.0, tolerance=3e-7)


@pytest.mark.parametrize("target", [0, 1, 2])
@pytest.mark.parametrize(
    "row", [[1e4, -1e4, 0], [-1e4, -1e4, -1e4], [1e4, 1e4, -1e4], [0, 90, 100]], ids=str
)
def test_cross_entropy_takes_extreme_logits(observe, row, target):
    logits = np.array([[[row[0], *row], [1, 1, 2, 3]]] * 2, np.float32)
    examine(observe, logits, [[target + 1, 2]] * 2, scale=1e4, tolerance=3e-7)


def test_cross_entropy_takes_inputs_that_are_not_contiguous(observe, rng):
    logits, targets = logits_of(rng, 2, 3, 5), some_targets(rng, 2, 3)
    expected = oracles.cross_entropy(logits, targets)
    case = examine(observe, logits, targets)
    with noting(CONTIGUOUS):
        ask_exactly(observe, case, expected, how={"strided": ["inputs", "targets"]})


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-6), ("bfloat16", 2e-2), ("float16", 3e-3)]
)
def test_cross_entropy_takes_other_dtypes(observe, rng, dtype, tolerance):
    logits = oracles.rounded(logits_of(rng, 2, 3, 6), dtype)
    examine(
        observe,
        logits,
        some_targets(rng, 2, 3),
        probe=forward_if_supported if dtype == "float64" else forward,
        how={"dtypes": {"inputs": dtype}},
        dtypes=[dtype, *AT_LEAST_FLOAT32],
        tolerance=tolerance,
    )


def examine_gradient(observe, logits, targets, tolerance=1e-5):
    weight = np.asarray(1.75, np.float32)  # The loss may be a term among others.
    one_hot = np.eye(5)[targets]
    expected = oracles.gradient(lambda z: oracles.cross_entropy(z, targets), logits, weight)

    def ask(observe, case):
        seen = observe(
            backward,
            function="run_cross_entropy",
            arguments=case,
            cotangent=weight,
            inputs=["inputs"],
        )
        expect_learned(seen, [], "run_cross_entropy")
        shape = case["inputs"].shape
        detached = -weight * one_hot.reshape(shape) / targets.size
        ignored = expected.reshape(shape) / weight
        expect_gradients(
            seen["gradients"],
            {"inputs": expected.reshape(shape)},
            "run_cross_entropy",
            mistakes=lambda: {
                "the normaliser is detached": detached,
                "the gradient that arrives from behind is ignored": ignored,
            },
            trials=lambda: trials(observe),
            tolerance=tolerance,
        )

    usual = {"inputs": logits, "targets": targets}
    in_either_form(ask, observe, [usual], [flat(logits, targets)])


@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_cross_entropy_has_the_right_gradient(observe, rng, offset):
    logits = logits_of(rng, 2, 3, 5) + np.float32(offset)
    # A float32 of 300 is exact to 2e-5, and a gradient may be an exponential of it.
    tolerance = 1e-4 if offset else 1e-5
    examine_gradient(observe, logits, some_targets(rng, 2, 3), tolerance)


def test_cross_entropy_has_the_right_gradient_at_ties_for_the_maximum(observe, rng):
    logits, targets = logits_of(rng, 2, 3, 5), some_targets(rng, 2, 3)
    examine_gradient(observe, logits, targets)
    logits[..., [0, 2]] = np.float32(6)
    with noting("where no two logits share the maximum; here two do"):
        examine_gradient(observe, logits, targets)


CROSS_ENTROPY = Adapter(
    "run_cross_entropy",
    lambda rng: {"inputs": logits_of(rng, 2, 3, 5), "targets": some_targets(rng, 2, 3)},
    lambda case: oracles.cross_entropy(*case.values()),
)


test_output_is_the_same_each_time = same_each_time(
    CROSS_ENTROPY, lambda case, expected: [flat(*case.values()), expected]
)
