"""Cross-entropy."""

import numpy as np
import pytest
from compare import expect_close, expect_gradients, expect_learned, expect_unchanged, noting
from mistakes import functions as mistakes
from oracles import model as oracles
from probes.model import backward, forward, forward_if_supported
from strided import forward_strided
from trials import ask, once

pytestmark = pytest.mark.problem("cross_entropy")

AT_LEAST_FLOAT32 = ("float32", "float64")


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


def examine(observe, logits, targets, **options):
    targets = np.asarray(targets)
    case = {"inputs": logits, "targets": targets}
    flat = {"inputs": logits.reshape(-1, logits.shape[-1]), "targets": targets.reshape(-1)}
    with noting(
        "if the logits have two axes; there may be any number of leading ones, also none",
        control=lambda: observe(forward, function="run_cross_entropy", arguments=flat),
    ):
        seen = observe(forward, function="run_cross_entropy", arguments=case)
    expect_close(
        seen["output"],
        oracles.cross_entropy(logits, targets),
        "run_cross_entropy",
        dtypes=AT_LEAST_FLOAT32,
        mistakes=lambda: mistakes.cross_entropy_value(logits, targets),
        trials=lambda: trials(observe),
        **options,
    )
    expect_unchanged(seen["changed"], "run_cross_entropy")


@pytest.mark.parametrize("leading", [(), (1,), (6,), (3, 4), (2, 3, 2)], ids=str)
def test_cross_entropy_is_the_mean_over_all_leading_axes(observe, rng, leading):
    logits = (2 * rng.standard_normal((*leading, 7))).astype(np.float32)
    examine(observe, logits, rng.integers(1, 6, leading))  # The others have an item of their own.


def test_cross_entropy_reaches_the_first_and_the_last_class(observe, rng):
    logits = (2 * rng.standard_normal((4, 5))).astype(np.float32)
    examine(observe, logits, [0, 4, 4, 0])


@pytest.mark.parametrize("offset", [-1e4, 200.0, 1e4])
def test_cross_entropy_does_not_overflow(observe, rng, offset):
    logits = rng.integers(-3, 4, (4, 5)).astype(np.float32) + np.float32(offset)
    examine(observe, logits, rng.integers(1, 5, 4), scale=abs(offset), tolerance=3e-7)


def test_cross_entropy_is_finite_for_a_target_that_is_all_but_impossible(observe, rng):
    logits = rng.standard_normal((3, 5)).astype(np.float32)
    logits[:, 2] += 500
    examine(observe, logits, [1, 1, 3])


def test_cross_entropy_takes_the_maximum_of_each_row(observe, rng):
    logits = rng.integers(-3, 4, (4, 5)).astype(np.float32)
    logits += np.array([0, 500, -500, 1000], np.float32)[:, None]
    examine(observe, logits, rng.integers(1, 5, 4), scale=1000.0, tolerance=3e-7)


def test_cross_entropy_of_a_sure_right_answer_is_almost_zero(observe):
    logits = np.zeros((2, 4), np.float32)
    logits[:, 1] = 12
    examine(observe, logits, [1, 1], scale=12.0, tolerance=3e-7)


@pytest.mark.parametrize("target", [0, 1, 2])
@pytest.mark.parametrize(
    "row", [[1e4, -1e4, 0], [-1e4, -1e4, -1e4], [1e4, 1e4, -1e4], [0, 90, 100]], ids=str
)
def test_cross_entropy_takes_extreme_logits(observe, row, target):
    logits = np.array([[row[0], *row], [1, 1, 2, 3]], np.float32)
    examine(observe, logits, [target + 1, 2], scale=1e4, tolerance=3e-7)


def test_cross_entropy_takes_inputs_that_are_not_contiguous(observe, rng):
    logits = rng.standard_normal((2, 3, 5)).astype(np.float32)
    targets = rng.integers(1, 5, (2, 3))
    case = {"inputs": logits, "targets": targets}
    seen = forward_strided(observe, "run_cross_entropy", case, ["inputs", "targets"])
    expected = oracles.cross_entropy(logits, targets)
    expect_close(seen["output"], expected, "run_cross_entropy", dtypes=AT_LEAST_FLOAT32)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-6), ("bfloat16", 2e-2), ("float16", 3e-3)]
)
def test_cross_entropy_takes_other_dtypes(observe, rng, dtype, tolerance):
    logits = oracles.rounded(3 * rng.standard_normal((4, 6)), dtype)
    targets = rng.integers(1, 6, 4)
    seen = observe(
        forward_if_supported if dtype == "float64" else forward,
        function="run_cross_entropy",
        arguments={"inputs": logits, "targets": targets},
        dtypes={"inputs": dtype},
    )
    if seen is None:
        return
    expect_close(
        seen["output"],
        oracles.cross_entropy(logits, targets),
        "run_cross_entropy",
        dtypes=[dtype, *AT_LEAST_FLOAT32],
        tolerance=tolerance,
    )


@pytest.mark.parametrize("offset", [0.0, 300.0])
@pytest.mark.parametrize("leading", [(4,), (2, 3)], ids=str)
def test_cross_entropy_has_the_right_gradient(observe, rng, leading, offset):
    weight = np.asarray(1.75, np.float32)  # The loss may be a term among others.
    logits = rng.integers(-3, 4, (*leading, 5)).astype(np.float32) + np.float32(offset)
    targets = rng.integers(1, 5, leading)
    seen = observe(
        backward,
        function="run_cross_entropy",
        arguments={"inputs": logits, "targets": targets},
        cotangent=weight,
        inputs=["inputs"],
    )
    expect_learned(seen, [], "run_cross_entropy")
    seen = seen["gradients"]
    one_hot = np.eye(5)[targets]
    expected = oracles.gradient(lambda z: oracles.cross_entropy(z, targets), logits, weight)
    expect_gradients(
        seen,
        {"inputs": expected},
        "run_cross_entropy",
        mistakes=lambda: {
            "the normaliser is detached": -weight * one_hot / targets.size,
            "the gradient that arrives from behind is ignored": expected / weight,
        },
        trials=lambda: trials(observe),
        # A float32 of 300 is exact to 2e-5, and a gradient may be an exponential of it.
        tolerance=1e-4 if offset else 1e-5,
    )
