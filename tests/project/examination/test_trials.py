"""A mistake is named if it explains every trial, and no other one does."""

import numpy as np
import pytest
from compare import WrongAnswer, expect_close, expect_gradients
from trials import Trial, ask, confirmed, explaining_most, right_and_wrong, unexplained

RIGHT = np.array([1.0, 2.0, 3.0])
ANSWERS = {"it is doubled": 2 * RIGHT, "one is added": RIGHT + 1, "nothing": RIGHT}


def trial(got, answers=ANSWERS, expected=RIGHT):
    return Trial("a call", np.asarray(got, float), np.asarray(expected, float), answers, 1e-6)


OF_TWO = {"it is doubled": np.array([4.0, 6])}


def test_the_only_mistake_that_explains_all_trials_is_named():
    doubled = [trial(2 * RIGHT), trial([4, 6], OF_TWO, [2, 3])]
    assert confirmed(ANSWERS, doubled) == ["it is doubled"]


@pytest.mark.parametrize(
    "other",
    [
        trial([2, 3], OF_TWO, [2, 3]),
        trial([5, 6], OF_TWO, [2, 3]),
        trial([4, 6], {}, [2, 3]),
    ],
    ids=["right, should be wrong", "wrong otherwise", "wrong where it should be right"],
)
def test_a_mistake_that_one_trial_contradicts_is_not_named(other):
    assert confirmed(ANSWERS, [trial(2 * RIGHT), other]) == []


def test_of_two_mistakes_that_meet_the_one_that_explains_most_is_named():
    doubled, neither = trial(2 * RIGHT), trial([7, 8, 9])
    assert explaining_most(ANSWERS, [doubled, doubled, neither]) == ["it is doubled"]
    assert unexplained(["it is doubled"], [doubled, neither]) == (
        "Something else is wrong, too: a call."
    )
    assert unexplained(["a narrow type"], [doubled, neither]) == ""


@pytest.mark.parametrize(
    "others",
    [
        [],
        [trial(2 * RIGHT), trial(RIGHT + 1), trial(RIGHT + 1)],
        [trial(2 * RIGHT), trial([2, 3], OF_TWO, [2, 3])],
    ],
    ids=["seen once", "another explains as much", "right where it should be wrong"],
)
def test_a_mistake_that_may_not_be_the_one_is_not_named_for_most(others):
    assert explaining_most(ANSWERS, [trial(2 * RIGHT), trial([7, 8, 9]), *others]) == []


def test_a_message_names_what_explains_most_and_says_that_it_is_not_all():
    error = failing(
        expect_close,
        {"values": 2 * RIGHT, "dtype": "float32"},
        RIGHT,
        "run_it",
        mistakes=lambda: ANSWERS,
        trials=lambda: [trial(2 * RIGHT), Trial("two heads", RIGHT * 9, RIGHT, ANSWERS, 1e-6)],
    )
    assert error.diagnosis == "it-is-doubled"
    assert error.msg.splitlines()[-2:] == [
        "  This is what comes out when it is doubled.",
        "  Something else is wrong, too: two heads.",
    ]


def test_two_mistakes_that_nothing_tells_apart_are_not_named():
    same = {"one": 2 * RIGHT, "another": 2 * RIGHT}
    assert confirmed(same, [trial(2 * RIGHT, same)]) == []
    apart = trial([4, 6], {"one": np.array([4.0, 6]), "another": np.array([9.0, 9])}, [2, 3])
    assert confirmed(same, [trial(2 * RIGHT, same), apart]) == ["one"]


@pytest.mark.parametrize(
    "got", [[2.0], [np.nan, np.nan], []], ids=["one value", "all nan", "empty"]
)
def test_hardly_any_value_identifies_nothing(got):
    got = np.array(got)
    answers = {"a mistake": got}
    assert confirmed(answers, [trial(got, answers, np.ones_like(got))]) == []


def test_an_exception_in_a_trial_says_nothing_and_ends_no_explanation():
    def broken(**_):
        raise ValueError

    silent = ask(broken, "a call", RIGHT, {"it is doubled": 2 * RIGHT}, probe=print)
    assert silent.got is None
    assert not silent.is_right
    assert confirmed(ANSWERS, [trial(2 * RIGHT), silent]) == ["it is doubled"]
    observed = {"dtype": "float32", "values": np.array([5.0, 5.0, 5.0])}
    error = failing(expect_close, observed, RIGHT, "run_it", trials=lambda: [silent])
    assert "3 of 3 values are wrong" in str(error)


def failing(check, *arguments, **options):
    with pytest.raises(WrongAnswer) as caught:
        check(*arguments, **options)
    return caught.value


def test_without_a_name_the_message_says_what_is_certain():
    wrong = np.array([[1.0, 2], [3, 4], [9, 9], [9, 9]])
    trials = [trial(RIGHT), trial(3 * RIGHT)]
    error = failing(
        expect_close,
        {"values": wrong, "dtype": "float32"},
        np.array([[1.0, 2], [3, 4], [5, 6], [7, 8]]),
        "run_rope",
        trials=lambda: trials,
    )
    assert error.diagnosis is None
    assert (
        "along the last axis but one, values differ at 2 and later; the others agree" in error.msg
    )
    assert "Wrong: a call.\n  Right: a call." in error.msg
    assert right_and_wrong(trials[:1]) == ""


def test_a_gradient_is_not_explained_where_the_values_are_wrong_as_well():
    seen = {"x": {"values": np.array([2.0, 3]), "dtype": "float32"}}
    mistakes = {"something is detached": np.array([2.0, 3])}
    how = {"expected": {"x": np.array([5.0, 7])}, "name": "run_silu", "mistakes": lambda: mistakes}
    assert failing(expect_gradients, seen, **how).diagnosis == "something-is-detached"
    wrong_values = failing(expect_gradients, seen, trials=lambda: [trial(3 * RIGHT)], **how)
    assert wrong_values.diagnosis is None


def test_a_mistake_whose_answer_cannot_be_foretold_is_neither_shown_nor_ruled_out():
    unforeseen = trial([7, 8, 9], {"it is doubled": None})
    assert confirmed(ANSWERS, [trial(2 * RIGHT), unforeseen]) == ["it is doubled"]
    assert confirmed(ANSWERS, [unforeseen]) == []


def test_one_mistake_may_have_several_answers():
    numbers = {"it is doubled": [np.float64(4.0), np.float64(2.0)]}
    single = trial(2.0, numbers, 1.0)
    assert single.shows("it is doubled") == 1
    rows = {"sorted": ([1, 2], [2, 1])}
    assert Trial("a call", [2, 1], [3, 4], rows).shows("sorted") == 2
    assert Trial("a call", [9, 9], [3, 4], rows).shows("sorted") == -1
