"""Gradient clipping."""

import numpy as np
import pytest
from compare import expect, expect_close, noting
from mistakes import training as mistakes
from oracles import training as oracles
from probes.training import clip, takes_float64
from trials import ask, once

NAME = "run_gradient_clipping"


def draw(rng, shapes, norm):
    """Gradients of a joint norm; None stands for a parameter that has none."""
    gradients = [None if s is None else rng.standard_normal(s) for s in shapes]
    factor = norm / max(oracles.joint_norm(gradients), 1e-30)
    return [None if g is None else np.asarray(g * factor, np.float32) for g in gradients]


def are_all(observed, answers, tolerance):
    """Whether a mistake explains all gradients, those that came out right included."""
    return all(
        answer is None
        or (
            one["values"] is not None
            and np.allclose(one["values"], answer, rtol=10 * tolerance, equal_nan=True)
        )
        for one, answer in zip(observed, answers, strict=True)
    )


@once
def trials(observe):
    rng = np.random.default_rng(0)
    for label, shapes, norm, bound in [
        ("norm 5, bound 1", [(3,), (2, 4), (5,)], 5.0, 1.0),
        ("norm 5, bound 2", [(3,), (2, 4), (5,)], 5.0, 2.0),
        ("norm 5, bound 4.9", [(2, 2), (6,), (1, 3)], 5.0, 4.9),
        ("norm 0.5, bound 0.3", [(2, 4), (3,)], 0.5, 0.3),
        ("norm 5, bound 50", [(3,), (2, 4)], 5.0, 50.0),
        ("norm 3, bound 4", [(3,), (2, 4)], 3.0, 4.0),
        ("a parameter without a gradient", [None, (3,), (2, 4)], 5.0, 1.0),
        ("norm 4e-3, bound 1e-3", [(3,), (2, 4)], 4e-3, 1e-3),
    ]:
        gradients = draw(rng, shapes, norm)
        answers = mistakes.clipping(gradients, bound)
        yield ask(
            observe,
            label,
            flat(oracles.clipped(gradients, bound)),
            {what: flat(row) for what, row in answers.items()},
            read=lambda seen: flat([gradient["values"] for gradient in seen["gradients"]]),
            probe=clip,
            gradients=gradients,
            max_l2_norm=bound,
        )


def flat(row):
    return np.concatenate([np.ravel(gradient) for gradient in row if gradient is not None])


def examine(observe, gradients, max_l2_norm, tolerance=1e-5, **how):
    present = [gradient for gradient in gradients if gradient is not None]
    with noting(
        "if every parameter has a gradient; one without has to be skipped",
        lambda: (
            observe(clip, gradients=present, max_l2_norm=max_l2_norm, **how)
            if 0 < len(present) < len(gradients)
            else 1 / 0
        ),
    ):
        seen = observe(clip, gradients=gradients, max_l2_norm=max_l2_norm, **how)
    expected = oracles.clipped(gradients, max_l2_norm)
    if how.get("given_as") == "generator" and not are_all(seen["gradients"], expected, tolerance):
        listed = observe(clip, aside=True, gradients=gradients, max_l2_norm=max_l2_norm)
        expect(
            not are_all(listed["gradients"], expected, tolerance),
            f"{NAME} clips a list of parameters, but not a generator of the same, which can be"
            " walked through only once: make a list of it first",
            "generator-is-walked-through-twice",
        )
    for place, gradient in enumerate(expected):
        observed = seen["gradients"][place]
        if gradient is None:
            expect(
                observed["dtype"] == "missing",
                f"{NAME} gave parameter {place} a gradient although it had none",
            )
            continue
        expect(observed["dtype"] != "missing", f"{NAME} removed the gradient of parameter {place}")

        def wrong(place=place):
            answers = mistakes.clipping(gradients, max_l2_norm)
            return {
                what: row[place]
                for what, row in answers.items()
                if are_all(seen["gradients"], row, tolerance)
            }

        name = f"{NAME}(max_l2_norm={max_l2_norm}), gradient {place} of {len(gradients)}"
        expect_close(
            observed,
            gradient,
            name,
            dtypes=str(gradients[place].dtype),
            tolerance=tolerance,
            mistakes=wrong,
            trials=lambda: trials(observe),
        )
    expect(not seen["parameters_changed"], f"{NAME} changed a parameter: it scales gradients only")
    return seen, expected


@pytest.mark.parametrize("max_l2_norm", [0.01, 1.0, 4.9])
def test_clipping_scales_by_the_joint_norm(observe, rng, max_l2_norm):
    examine(observe, draw(rng, [(3,), (2, 4)], norm=5.0), max_l2_norm)


@pytest.mark.parametrize("max_l2_norm", [5.1, 50.0, 1e6])
def test_clipping_leaves_gradients_below_the_bound_alone(observe, rng, max_l2_norm):
    examine(observe, draw(rng, [(3,), (2, 4)], norm=5.0), max_l2_norm, tolerance=1e-7)


def test_clipping_looks_at_the_joint_norm_even_if_each_gradient_is_small(observe, rng):
    gradients = draw(rng, [(2,)] * 9, norm=2.0)
    examine(observe, gradients, 1.0)


def test_clipping_adds_1e_6_to_the_norm(observe, rng):
    examine(observe, draw(rng, [(3,), (4,)], norm=4e-3), 1e-3, tolerance=3e-5)


@pytest.mark.parametrize("given_as", ["list", "tuple", "generator"])
def test_clipping_takes_any_iterable_of_parameters(observe, rng, given_as):
    examine(observe, draw(rng, [(3,), (2, 4)], norm=5.0), 1.0, given_as=given_as)


@pytest.mark.parametrize("shapes", [[None, (3,), (2,)], [(3,), None, (2,)], [(3,), None, None]])
def test_clipping_skips_parameters_without_a_gradient(observe, rng, shapes):
    examine(observe, draw(rng, shapes, norm=5.0), 1.0)


def test_clipping_does_nothing_if_there_are_no_gradients(observe):
    one = [None, np.ones(2, np.float32)]
    with noting(
        "if some parameter has a gradient; if none has, nothing is to be done",
        lambda: examine(observe, one, 1.0),
    ):
        examine(observe, [None, None], 1.0)


def test_clipping_leaves_zero_gradients_at_zero(observe):
    examine(observe, [np.zeros(3, np.float32), np.zeros((2, 2), np.float32)], 1.0)


def test_clipping_works_in_place(observe, rng):
    gradients = draw(rng, [(3,), (2, 4)], norm=5.0)
    seen, expected = examine(observe, gradients, 1.0)
    for place, gradient in enumerate(expected):
        expect_close(
            seen["held"][place],
            gradient,
            f"{NAME}, the tensor that was gradient {place}",
            mistakes=lambda place=place: {
                "p.grad is replaced by a new tensor: scale it in place (mul_)": gradients[place]
            },
        )


def test_clipping_keeps_float64(observe, rng):
    gradients = [g.astype(np.float64) for g in draw(rng, [(3,), (2, 4)], norm=5.0)]
    inputs = {"gradients": gradients, "max_l2_norm": 1.0}
    if observe(takes_float64, kind="clip", inputs=inputs):
        examine(observe, gradients, 1.0)


def test_clipping_takes_many_parameters(observe, rng):
    examine(observe, draw(rng, [(2,), (3, 2), (5,), (), (1, 1, 4)] * 8, norm=30.0), 1.0)


def test_clipping_does_not_overflow(observe, rng):
    examine(observe, draw(rng, [(3,), (2, 4)], norm=1e12), 1.0)


def test_clipping_sums_squares_of_bfloat16_in_float32(observe):
    """In bfloat16 a sum of 256 no longer grows by 1."""
    gradients = [np.full((2,), 0.5, np.float32) for _ in range(600)]
    seen = observe(clip, gradients=gradients, max_l2_norm=1.0, dtype="bfloat16")
    expected = oracles.clipped(gradients, 1.0)
    for place in (0, 599):
        expect_close(
            seen["gradients"][place],
            expected[place],
            f"{NAME}(max_l2_norm=1.0), bfloat16 gradient {place} of 600",
            dtypes="bfloat16",
            tolerance=1e-2,
            hint="Are the squares summed in bfloat16, which has eight binary digits? Use float32.",
        )
