"""The ranking and the judgement on noise, on results written by hand."""

import dataclasses
import math

import numpy as np
import pytest
from ablation_results import RESULT, run_of

from cs_basics.study.ablation_summary import QUANTILES, Noise, quantile_95, summarise


def runs_of(variant, *scores):
    results = (dataclasses.replace(RESULT, bits_per_byte=score) for score in scores)
    return [run_of(variant, seed, result) for seed, result in enumerate(results)]


def summaries_of(**scores):
    return {s.variant: s for s in summarise(r for n, v in scores.items() for r in runs_of(n, *v))}


def test_a_run_that_is_still_to_come_does_not_count_against_its_variant():
    missing, crashed = (run_of("a", result=None, crash=crash) for crash in (None, "x"))
    assert summarise([*runs_of("a", 1.0), missing])[0].is_sound
    assert not summarise([*runs_of("a", 1.0), crashed])[0].is_sound
    assert not summarise([missing])[0].is_sound


def test_noise_is_the_pooled_standard_deviation_of_all_variants():
    scores = {"a": (1.00, 1.02), "b": (1.10, 1.16), "c": (1.2, 1.21, 1.28)}
    found = summaries_of(**scores)
    noise = Noise(list(found.values()))
    squares = sum(((np.array(s) - np.mean(s)) ** 2).sum() for s in scores.values())
    assert noise.degrees_of_freedom == 4
    assert noise.pooled == pytest.approx(squares / 4)
    assert noise.quantile == 2.776


@pytest.mark.parametrize(("gap", "is_noise"), [(0.043, True), (0.0431, False)])
def test_with_two_seeds_a_difference_below_four_standard_errors_is_noise(gap, is_noise):
    # Both variants have a standard deviation of 0.01: a standard error of 0.01. Student's t with
    # two degrees of freedom is 4.303.
    spread = 0.01 / math.sqrt(2)
    found = summaries_of(a=(1 - spread, 1 + spread), b=(1 + gap - spread, 1 + gap + spread))
    assert Noise(list(found.values())).explains(*found.values()) is is_noise


def two_sided(t, degrees):
    """The probability beyond t: what the density leaves of 1."""
    places = np.linspace(-t, t, 10_001)
    density = (1 + places**2 / degrees) ** (-(degrees + 1) / 2)
    scale = math.gamma((degrees + 1) / 2) / math.gamma(degrees / 2) / math.sqrt(math.pi * degrees)
    return 1 - scale * np.trapezoid(density, places)


def test_the_table_of_student_s_t_leaves_one_case_of_20():
    for degrees, quantile in enumerate(QUANTILES, 1):
        assert two_sided(quantile, degrees) == pytest.approx(0.05, abs=5e-5)
        assert quantile_95(degrees + 0.5) == quantile
