"""Whoever only knows the answers to the public inputs earns next to nothing (all: zoo/whole.py)."""

import pytest
from table import grade_table

SOME = ("learning_rate_schedule", "silu")


@pytest.mark.slow
def test_table_of_public_answers_earns_next_to_nothing(tmp_path):
    result = grade_table(tmp_path, *SOME)
    public = [item.outcome for item in result.items if not item.is_hidden]
    # Otherwise there would be nothing to see: it is right where its table says something.
    assert public.count("passed") > 0.6 * len(public)
    for problem in result.problems:
        assert problem.points <= 0.1 * problem.max_points, problem
