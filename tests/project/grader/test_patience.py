"""One slow or fatal item costs itself; a function from which nothing comes back is given up."""

import pytest

from cs_grader.trusted.patience import CPU_S, DEFAULT_CPU_S, HURRIED_S, Patience


@pytest.fixture
def patience():
    return Patience(idle_s=10.0, problem_idle_s=30.0)


def ask(patience, item, *, slow=False, fatal=False, function="run_silu"):
    """Ask an item of silu; return what it was given, or None if it was not asked."""
    if patience.gives_up("silu", function):
        return None
    given = patience.time_for("silu", item)
    patience.learn("silu", function, item, slow=slow, fatal=fatal)
    return given[0]


def test_an_item_that_is_slow_however_often_it_is_asked_costs_no_other_anything(patience):
    ask(patience, "a")
    for _ in range(4):
        assert ask(patience, "b", slow=True) == DEFAULT_CPU_S
    assert ask(patience, "c") == DEFAULT_CPU_S
    assert patience.time_for("tokenizer", "b")[0] == CPU_S["tokenizer"]


def test_once_two_items_were_slow_the_others_are_asked_with_less_time(patience):
    ask(patience, "a")
    for item in ("b", "c", "b"):
        assert ask(patience, item, slow=True) == DEFAULT_CPU_S
    assert [ask(patience, item) for item in "defg"] == [HURRIED_S] * 4
    assert patience.time_for("silu", "d")[1] == HURRIED_S
    assert patience.time_for("softmax", "d") == (DEFAULT_CPU_S, 10.0)


def test_a_loop_in_every_item_is_waited_for_three_times(patience):
    given = [ask(patience, item, slow=True) for item in "abcdef"]
    assert given == [DEFAULT_CPU_S, DEFAULT_CPU_S, HURRIED_S, None, None, None]
    assert ask(patience, "g", function="run_softmax") == HURRIED_S


def test_items_that_end_the_sandbox_cost_themselves_and_only_all_of_them_all(patience):
    assert [ask(patience, item, fatal=True) for item in "aabcd"] == [DEFAULT_CPU_S] * 4 + [None]
    patience = Patience(10.0, 30.0)
    ask(patience, "a")
    assert [ask(patience, item, fatal=True) for item in "bcdef"] == [DEFAULT_CPU_S] * 5


def test_much_waiting_in_a_problem_leaves_the_others_less_time(patience):
    patience.waited_s["silu"] = 30.0
    assert patience.time_for("silu", "a") == (HURRIED_S, HURRIED_S)
