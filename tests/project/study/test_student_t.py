"""Student's t: probabilities and quantiles are those of closed forms and of tables."""

import math

import pytest

from cs_basics.study.student_t import quantile_95, two_sided


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0, 4.0, 63.0])
def test_probabilities_are_those_of_the_closed_forms(t):
    assert two_sided(t, 1) == pytest.approx(1 - 2 / math.pi * math.atan(t), abs=1e-6)
    assert two_sided(t, 2) == pytest.approx(1 - t / math.sqrt(t * t + 2), abs=1e-6)


def test_quantiles_are_those_of_the_tables_and_fall_to_that_of_the_normal_distribution():
    found = [quantile_95(degrees) for degrees in (1, 2, 4, 10, 1000)]
    assert found == pytest.approx([12.706, 4.303, 2.776, 2.228, 1.962], abs=1e-3)
