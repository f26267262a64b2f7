"""Progress over time, in one line, and what a problem may be called."""

import argparse

import progress
import pytest
from options import problem_called


def rows(problem, outcome="passed", number=2):
    item = f"tests/test_{problem}.py::x"
    return [{"problem": problem, "item": item, "outcome": outcome}] * number


def test_what_was_solved_before_is_counted_with_what_is_solved_now(tmp_path):
    path = tmp_path / "progress.json"
    assert progress.line(rows("silu"), path) == "1 of 20 problems, 2.0 points"
    both = [*rows("rmsnorm"), *rows("rope", "failed")]
    assert progress.line(both, path) == "2 of 20 problems, 6.0 points"
    # Fewer items of a problem than before say nothing of it.
    some = rows("silu", "failed", number=1)
    assert progress.line(some, path) == "2 of 20 problems, 6.0 points"
    assert progress.line(rows("silu", "failed"), path) == "1 of 20 problems, 4.0 points"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("swiglu", "positionwise_feedforward"),
        ("run_get_batch", "data_loading"),
        ("Feed-forward network (SwiGLU)", "positionwise_feedforward"),
        ("network, feed forward", "positionwise_feedforward"),
        ("Multi-head self-attention", "multihead_self_attention"),
        ("rope attention", "multihead_self_attention_with_rope"),
    ],
)
def test_a_problem_has_the_names_of_the_handout_and_of_its_adapter(name, problem):
    assert problem_called(name) == problem


@pytest.mark.parametrize(("name", "words"), [("norms", "no problem"), ("attention", "several")])
def test_a_name_of_none_or_of_several_is_refused(name, words):
    with pytest.raises(argparse.ArgumentTypeError, match=words):
        problem_called(name)
