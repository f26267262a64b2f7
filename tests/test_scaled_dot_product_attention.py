"""Scaled dot-product attention."""

import functools

import numpy as np
import pytest
from adapter import Adapter
from alike import same_each_time
from compare import (
    expect_close,
    expect_gradients,
    expect_learned,
    in_either_form,
    noting,
)
from difficulties import CONTIGUOUS
from mistakes import attention as mistakes
from oracles import model as oracles
from probes.model import backward, forward, forward_if_supported, forward_in_turns

NAME = "run_scaled_dot_product_attention"


def attention_case(rng, leading=(4,), queries=5, keys=5, d_k=8, d_v=None, masked=True):
    d_v = d_v or d_k

    def normal(*shape):
        return rng.standard_normal((*leading, *shape)).astype(np.float32)

    mask = None
    if masked:
        mask = rng.random((*leading, queries, keys)) < 0.5
        mask[..., 0] |= ~mask.any(-1)  # Every query sees at least one key.
    return {"Q": normal(queries, d_k), "K": normal(keys, d_k), "V": normal(keys, d_v), "mask": mask}


def uneven_case(rng, leading=(2,), queries=4, keys=5, d_k=8, d_v=3, masked=True):
    """A case in which no size is another one."""
    return attention_case(rng, leading, queries, keys, d_k, d_v, masked)


def cases(rng):
    attention_case = functools.partial(uneven_case, rng)
    cases = {
        "no mask": attention_case(masked=False),
        "a mask for each batch row": attention_case(),
        "no batch axis": attention_case(leading=(), queries=3, keys=6),
        "d_v above d_k": attention_case(d_k=2, d_v=9),
        "d_v equal to d_k": attention_case(d_k=6, d_v=6),
        "more queries than keys": attention_case(queries=7, keys=3, d_v=4),
        "as many queries as keys, no mask": attention_case(queries=5, keys=5, masked=False),
        "two batch axes, one mask for all": attention_case(leading=(2, 3)),
        "scores far below zero": attention_case(d_k=4),
        "scores of thousands": attention_case(d_k=4, masked=False),
    }
    shared, low, high = list(cases)[-3:]
    cases[shared]["mask"] = cases[shared]["mask"][0, 0]
    # Below -100, -1000 and -10000, which some take for -inf.
    cases[low]["Q"][:], cases[low]["K"][:] = np.array([[2.5], [25], [100], [100]]), -100
    cases[high]["Q"] = np.float32(1000) * np.sign(cases[high]["Q"])
    cases[high]["K"] = rng.integers(-3, 4, cases[high]["K"].shape).astype(np.float32)
    return cases


ATTENTION = Adapter(
    NAME,
    attention_case,
    lambda case: oracles.attention(*case.values()),
    lambda case: mistakes.scaled_attention(*case.values()),
    cases,
)


def with_two_batch_axes(array):
    """The same rows, whose number is even, along two axes."""
    return None if array is None else array.reshape(2, -1, *array.shape[1:])


def split(case):
    return {name: with_two_batch_axes(value) for name, value in case.items()}


def ask_exactly(observe, case, expected, probe=forward, how=None, **options):
    seen = observe(probe, function=NAME, arguments=case, **(how or {}))
    if seen is None:
        return  # Refusing a dtype is free, answering wrongly is not.
    expect_close(seen["output"], expected, NAME, **options)


def explained(observe, case, **options):
    return options | {
        "mistakes": lambda: ATTENTION.mistakes(case),
        "trials": lambda: ATTENTION.trials(observe),
    }


def examine(observe, case, **options):
    """Ask with one batch axis; whoever takes two only (batch and heads) may have those."""
    expected = ATTENTION.right(case)

    def ask(observe, case, expected):
        ask_exactly(observe, case, expected, **options)

    options = explained(observe, case, **options)
    other = [split(case), with_two_batch_axes(expected)]
    in_either_form(ask, observe, [case, expected], other)


@pytest.mark.parametrize("d_k", [4, 8, 16])
def test_attention_mixes_values_by_scaled_scores(observe, rng, d_k):
    examine(observe, attention_case(rng, d_k=d_k))


@pytest.mark.parametrize("size", [3, 8])
def test_attention_takes_no_mask(observe, rng, size):
    case = attention_case(rng, d_k=size, masked=False)
    full = np.ones((*case["Q"].shape[:-1], case["K"].shape[-2]), bool)
    examine(observe, {**case, "mask": full})
    with noting("with a mask of all True; mask may be None"):
        examine(observe, case)


@pytest.mark.parametrize("leading", [(), (2,), (2, 3), (2, 3, 2)], ids=str)
def test_attention_takes_any_number_of_axes(observe, rng, leading):
    examine(observe, attention_case(rng))
    case = attention_case(rng, leading)
    with noting("with another number of batch axes; there may be any, also none"):
        ask_exactly(observe, case, ATTENTION.right(case), **explained(observe, case))


@pytest.mark.parametrize(("d_k", "d_v"), [(2, 9), (16, 4)])
def test_attention_takes_values_of_another_size(observe, rng, d_k, d_v):
    examine(observe, attention_case(rng, d_k=d_k))
    with noting("if d_v equals d_k; values may have another size"):
        examine(observe, attention_case(rng, d_k=d_k, d_v=d_v))


@pytest.mark.parametrize(("queries", "keys"), [(3, 7), (7, 3), (4, 5), (1, 6), (6, 1), (1, 1)])
def test_attention_takes_any_number_of_queries_and_keys(observe, rng, queries, keys):
    examine(observe, attention_case(rng))
    with noting("with as many queries as keys; there may be more of either, or one"):
        examine(observe, attention_case(rng, queries=queries, keys=keys))


@pytest.mark.parametrize(
    "places",
    [np.s_[0, 0], np.s_[0, :1], np.s_[:, :1], np.s_[:1]],
    ids=["()", "(1,)", "(2, 1)", "(1, 3)"],
)
def test_attention_shares_one_mask_between_batch_rows(observe, rng, places):
    two = attention_case(rng, (2, 3))
    one = {name: value.reshape(6, *value.shape[2:]) for name, value in two.items()}
    forms = [[case, ATTENTION.right(case)] for case in (two, one)]
    # Where one batch axis is all that is taken, one mask for all of it is asked for.
    masks = two["mask"][places], one["mask"][0 if places == (0, 0) else np.s_[:1]]
    shared = [
        [case | {"mask": mask}, ATTENTION.right(case | {"mask": mask})]
        for (case, _), mask in zip(forms, masks, strict=True)
    ]

    def ask(observe, case, expected):
        ask_exactly(observe, case, expected, **explained(observe, case))

    answered = in_either_form(ask, observe, *forms)
    with noting("with a mask for each batch row; rows may share one"):
        ask(observe, *shared[answered is forms[1]])


def test_attention_of_one_call_does_not_depend_on_another(observe, rng):
    cases = [attention_case(rng, queries=length, keys=length) for length in (5, 7, 5)]
    expected = [ATTENTION.right(case) for case in cases]

    def ask(observe, cases, expected):
        seen = observe(forward_in_turns, function=NAME, cases=cases)
        for one, right in zip(seen, expected, strict=True):
            expect_close(
                one["output"],
                right,
                f"{NAME}, called several times,",
                hint="If a call alone is right: what is kept from an earlier one?",
            )

    examine(observe, cases[0])
    others = [list(map(split, cases)), list(map(with_two_batch_axes, expected))]
    in_either_form(ask, observe, [cases, expected], others)


def test_attention_with_a_mask_of_all_true_is_attention_without_mask(observe, rng):
    case = attention_case(rng)
    case["mask"] = np.ones_like(case["mask"])
    examine(observe, case)


@pytest.mark.parametrize("size", [32.0, 1024.0])
def test_attention_does_not_overflow(observe, rng, size):
    case = attention_case(rng, d_k=4)  # float32 holds every score exactly.
    case["Q"] = np.float32(size) * np.sign(case["Q"])
    case["K"] = rng.integers(-3, 4, case["K"].shape).astype(np.float32)
    examine(observe, case)


def test_attention_gives_masked_keys_probability_zero_however_low_the_others_score(observe, rng):
    case = attention_case(rng, d_k=4)  # float32 holds every score exactly.
    case["Q"] = np.full_like(case["Q"], 100.0)
    places = np.arange(case["K"].shape[-2], dtype=np.float32)[:, None]
    case["K"] = np.full_like(case["K"], -100.0) + places * np.float32(2.0**-9)
    examine(observe, case)


def test_attention_averages_where_all_scores_are_equal(observe, rng):
    case = attention_case(rng)
    case["K"] = np.zeros_like(case["K"])
    examine(observe, case)


def test_attention_picks_one_value_where_one_score_towers(observe, rng):
    case = attention_case(rng)
    case["Q"] = np.float32(100) * np.broadcast_to(np.eye(5, 8), case["Q"].shape).astype(np.float32)
    case["K"] = case["Q"].copy()
    case["mask"] |= np.eye(5, dtype=bool)
    examine(observe, case)


def test_attention_ignores_huge_values_behind_the_mask(observe, rng):
    case = attention_case(rng)
    case["mask"][..., 2] = False
    case["mask"][..., 0] = True
    case["V"][:, 2] = 1e30
    examine(observe, case)


def test_attention_of_a_query_that_sees_nothing_leaves_the_others_alone(observe, rng):
    case = attention_case(rng)
    case["mask"][0, 1] = False
    right = ATTENTION.right(case)

    def ask(observe, case, expected, place):
        seen = observe(forward, function=NAME, arguments=case)["output"]
        expected, spread = expected.copy(), np.full_like(expected, np.nan)
        if seen["values"] is not None and seen["values"].shape == expected.shape:
            expected[place] = seen["values"][place]  # What that query itself gets is free.
            if np.isnan(expected[place]).any():
                expected[place] = seen["values"][place] = spread[place] = 0
        expect_close(
            seen,
            expected,
            NAME,
            mistakes=lambda: {"a query that sees nothing turns all others into nan": spread},
            trials=lambda: ATTENTION.trials(observe),
        )

    other = [split(case), with_two_batch_axes(right), (0, 0, 1)]
    in_either_form(ask, observe, [case, right, (0, 1)], other)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [("float32", 1e-5), ("float64", 1e-6), ("bfloat16", 3e-2), ("float16", 5e-3)],
)
def test_attention_keeps_the_dtype(observe, rng, dtype, tolerance):
    case = attention_case(rng)
    case |= {name: oracles.rounded(case[name], dtype) for name in "QKV"}
    how = {"dtypes": dict.fromkeys("QKV", dtype)}
    examine(observe, case, probe=forward_if_supported, how=how, dtypes=dtype, tolerance=tolerance)


def test_attention_takes_inputs_that_are_not_contiguous(observe, rng):
    case = attention_case(rng)
    expected = ATTENTION.right(case)
    two_axes = [split(case), with_two_batch_axes(expected)]  # They can be merged into one.
    answered = in_either_form(ask_exactly, observe, two_axes, [case, expected])
    with noting(CONTIGUOUS):
        ask_exactly(observe, *answered, how={"strided": ["Q", "K", "V", "mask"]})


@pytest.mark.parametrize("masked", [True, False], ids=["masked", "no_mask"])
def test_attention_passes_gradients_to_queries_keys_and_values(observe, rng, masked):
    case = attention_case(rng, queries=3, keys=3, d_k=4, masked=masked)
    cotangent = rng.standard_normal((4, 3, 4)).astype(np.float32)
    expected = {}
    for name in "QKV":

        def vary(z, name=name):
            return ATTENTION.right({**case, name: z})

        expected[name] = oracles.gradient(vary, case[name], cotangent)

    def ask(observe, case, cotangent, expected):
        seen = observe(
            backward, function=NAME, arguments=case, cotangent=cotangent, inputs=["Q", "K", "V"]
        )
        expect_learned(seen, [], NAME)
        expect_gradients(
            seen["gradients"], expected, NAME, trials=lambda: ATTENTION.trials(observe)
        )

    other = [split(case), with_two_batch_axes(cotangent), split(expected)]
    in_either_form(ask, observe, [case, cotangent, expected], other)


test_output_is_the_same_each_time = same_each_time(
    ATTENTION, lambda case, expected: [split(case), with_two_batch_axes(expected)]
)
