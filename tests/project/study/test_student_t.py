"""Student's t: the table against closed forms."""

import math

import pytest

from cs_basics.study.student_t import QUANTILES, quantile_95


def two_sided(t, degrees):
    """The probability beyond t, by the finite sums for whole degrees (Abramowitz, Stegun 26.7)."""
    angle = math.atan(t / math.sqrt(degrees))
    cosine = math.cos(angle)
    if degrees % 2 == 0:
        even, total = 1.0, 0.0
        for power in range(0, degrees - 1, 2):
            total += even * cosine**power
            even *= (power + 1) / (power + 2)
        return 1 - math.sin(angle) * total
    odd, total = cosine, 0.0
    for power in range(1, degrees - 1, 2):
        total += odd
        odd *= cosine**2 * (power + 1) / (power + 2)
    return 1 - 2 / math.pi * (angle + math.sin(angle) * total)


def test_the_table_leaves_one_case_of_20():
    for degrees, quantile in enumerate(QUANTILES, 1):
        assert two_sided(quantile, degrees) == pytest.approx(0.05, abs=5e-5)


def test_degrees_between_two_count_as_the_fewer():
    assert quantile_95(1.99) == quantile_95(1) == 12.706
    assert quantile_95(1000) == quantile_95(30.5) == 2.042
