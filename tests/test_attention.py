"""Scaled dot-product attention."""

import numpy as np
import pytest
from compare import expect_close, expect_gradients, expect_learned, expect_unchanged, noting
from mistakes import attention as mistakes
from oracles import model as oracles
from probes.model import backward, forward, forward_if_supported, forward_in_turns
from strided import forward_strided
from trials import ask, once

pytestmark = pytest.mark.problem("scaled_dot_product_attention")

NAME = "run_scaled_dot_product_attention"


def attention_case(rng, leading=(2,), queries=4, keys=5, d_k=8, d_v=3, masked=True):
    def normal(*shape):
        return rng.standard_normal((*leading, *shape)).astype(np.float32)

    mask = None
    if masked:
        mask = rng.random((*leading, queries, keys)) < 0.5
        mask[..., 0] |= ~mask.any(-1)  # Every query sees at least one key.
    return {"Q": normal(queries, d_k), "K": normal(keys, d_k), "V": normal(keys, d_v), "mask": mask}


@once
def trials(observe):
    rng = np.random.default_rng(0)
    cases = {
        "no mask": attention_case(rng, masked=False),
        "a mask for each batch row": attention_case(rng),
        "no batch axis": attention_case(rng, leading=(), queries=3, keys=6),
        "d_v above d_k": attention_case(rng, d_k=2, d_v=9),
        "d_v equal to d_k": attention_case(rng, d_k=6, d_v=6),
        "more queries than keys": attention_case(rng, queries=7, keys=3, d_v=4),
        "as many queries as keys, no mask": attention_case(rng, queries=5, keys=5, masked=False),
        "two batch axes, one mask for all": attention_case(rng, leading=(2, 3)),
        "scores far below zero": attention_case(rng, d_k=4),
        "scores of thousands": attention_case(rng, d_k=4, masked=False),
    }
    shared, low, high = list(cases)[-3:]
    cases[shared]["mask"] = cases[shared]["mask"][0, 0]
    # Below -100, -1000 and -10000, which some take for -inf.
    cases[low]["Q"][:], cases[low]["K"][:] = np.array([[2.5], [25], [100], [100]]), -100
    cases[high]["Q"] = np.float32(1000) * np.sign(cases[high]["Q"])
    cases[high]["K"] = rng.integers(-3, 4, cases[high]["K"].shape).astype(np.float32)
    for label, case in cases.items():
        arguments = list(case.values())
        yield ask(
            observe,
            label,
            oracles.attention(*arguments),
            mistakes.scaled_attention(*arguments),
            probe=forward,
            function=NAME,
            arguments=case,
        )


def impossible():
    raise ValueError


def examine(observe, case, **options):
    keys, values = case["K"].shape, case["V"].shape
    everything = np.ones((*case["Q"].shape[:-1], keys[-2]), bool)
    same_size = np.resize(case["V"], (*values[:-1], keys[-1]))

    def runs_with(**others):
        return lambda: observe(forward, function=NAME, arguments={**case, **others})

    with (
        noting(
            "if d_v equals d_k; values may have another size",
            runs_with(V=same_size) if values[-1] != keys[-1] else impossible,
        ),
        noting(
            "with a mask of all True; mask may be None",
            runs_with(mask=everything) if case["mask"] is None else impossible,
        ),
    ):
        seen = observe(forward, function=NAME, arguments=case)
    arguments = list(case.values())
    expect_close(
        seen["output"],
        oracles.attention(*arguments),
        NAME,
        mistakes=lambda: mistakes.scaled_attention(*arguments),
        trials=lambda: trials(observe),
        **options,
    )
    expect_unchanged(seen["changed"], NAME)


@pytest.mark.parametrize("masked", [True, False], ids=["masked", "no_mask"])
@pytest.mark.parametrize("leading", [(), (2,), (2, 3), (2, 1, 2), (0, 2)], ids=str)
def test_attention_mixes_values_by_scaled_scores(observe, rng, leading, masked):
    examine(observe, attention_case(rng, leading, masked=masked))


@pytest.mark.parametrize(("d_k", "d_v"), [(2, 9), (16, 4), (5, 5), (1, 1)])
def test_attention_scales_by_the_root_of_d_k(observe, rng, d_k, d_v):
    examine(observe, attention_case(rng, d_k=d_k, d_v=d_v))


@pytest.mark.parametrize(("queries", "keys"), [(1, 6), (6, 1), (1, 1), (3, 7), (5, 5)])
def test_attention_takes_any_number_of_queries_and_keys(observe, rng, queries, keys):
    examine(observe, attention_case(rng, queries=queries, keys=keys))


@pytest.mark.parametrize("axes", [(), (1,), (2, 1), (1, 3)], ids=str)
def test_attention_shares_one_mask_between_batch_rows(observe, rng, axes):
    case = attention_case(rng, (2, 3))
    places = tuple(slice(size) for size in axes) if len(axes) == 2 else (0, *map(slice, axes))
    case["mask"] = case["mask"][places] if axes else case["mask"][0, 0]
    examine(observe, case)


def test_attention_of_one_call_does_not_depend_on_another(observe, rng):
    cases = [
        attention_case(rng, leading=(2,), queries=queries, keys=keys, masked=masked)
        for queries, keys, masked in [(4, 5, True), (4, 5, False), (6, 7, True), (4, 5, True)]
    ]
    for case, seen in zip(
        cases, observe(forward_in_turns, function=NAME, cases=cases), strict=True
    ):
        expect_close(
            seen["output"],
            oracles.attention(*case.values()),
            f"{NAME}, called several times,",
            hint="If a call alone is right: what is kept from an earlier one?",
        )


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
    case = attention_case(rng, queries=5, keys=5, d_k=8)
    case["Q"] = np.float32(100) * np.broadcast_to(np.eye(5, 8), case["Q"].shape).astype(np.float32)
    case["K"] = case["Q"].copy()
    case["mask"] |= np.eye(5, dtype=bool)
    examine(observe, case)


def test_attention_ignores_huge_values_behind_the_mask(observe, rng):
    case = attention_case(rng, leading=())
    case["mask"][:, 2] = False
    case["mask"][:, 0] = True
    case["V"][2] = 1e30
    examine(observe, case)


def test_attention_of_a_query_that_sees_nothing_leaves_the_others_alone(observe, rng):
    case = attention_case(rng)
    case["mask"][0, 1] = False
    seen = observe(forward, function=NAME, arguments=case)["output"]
    expected = oracles.attention(*case.values())
    spread = np.full_like(expected, np.nan)
    if seen["values"] is not None and seen["values"].shape == expected.shape:
        expected[0, 1] = seen["values"][0, 1]  # What that query itself gets is free.
        if np.isnan(expected[0, 1]).any():
            expected[0, 1] = seen["values"][0, 1] = spread[0, 1] = 0
    expect_close(
        seen,
        expected,
        NAME,
        mistakes=lambda: {"a query that sees nothing turns all others into nan": spread},
        trials=lambda: trials(observe),
    )


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-6), ("bfloat16", 3e-2), ("float16", 5e-3)]
)
def test_attention_keeps_the_dtype(observe, rng, dtype, tolerance):
    case = attention_case(rng)
    case |= {name: oracles.rounded(case[name], dtype) for name in "QKV"}
    seen = observe(
        forward_if_supported, function=NAME, arguments=case, dtypes=dict.fromkeys("QKV", dtype)
    )
    if seen is None:
        return  # Refusing a dtype is free, answering wrongly is not.
    expected = oracles.attention(*case.values())
    expect_close(seen["output"], expected, NAME, dtypes=dtype, tolerance=tolerance)


def test_attention_takes_inputs_that_are_not_contiguous(observe, rng):
    case = attention_case(rng, (2, 3))
    seen = forward_strided(observe, NAME, case, ["Q", "K", "V", "mask"])
    expect_close(seen["output"], oracles.attention(*case.values()), NAME)


@pytest.mark.parametrize("masked", [True, False], ids=["masked", "no_mask"])
def test_attention_passes_gradients_to_queries_keys_and_values(observe, rng, masked):
    case = attention_case(rng, queries=3, keys=4, d_k=4, d_v=2, masked=masked)
    cotangent = rng.standard_normal((2, 3, 2)).astype(np.float32)
    seen = observe(
        backward, function=NAME, arguments=case, cotangent=cotangent, inputs=["Q", "K", "V"]
    )
    expect_learned(seen, [], NAME)
    seen = seen["gradients"]
    expected = {}
    for name in "QKV":

        def vary(z, name=name):
            return oracles.attention(*{**case, name: z}.values())

        expected[name] = oracles.gradient(vary, case[name], cotangent)
    expect_gradients(seen, expected, NAME, trials=lambda: trials(observe))
