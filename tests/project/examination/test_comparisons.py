"""What the examination says of a wrong answer: which mistake it is, and when it says none."""

import numpy as np
import pytest
from compare import NotStarted, WrongAnswer, expect, expect_close, expect_equal, noting
from oracles.model import rounded


def observed(values, dtype="float32"):
    return {"values": np.asarray(values), "dtype": dtype}


def works():
    return None


def breaks():
    raise ValueError("this, too")


def test_an_exception_says_which_other_call_runs():
    with pytest.raises(KeyError) as caught, noting("with another key", works):
        raise KeyError
    assert not hasattr(caught.value, "diagnosis")
    assert caught.value.__notes__ == ["The same call runs with another key."]


@pytest.mark.parametrize(
    ("error", "other"),
    [(KeyError(), breaks), (WrongAnswer("wrong"), works), (NotStarted("run_silu"), works)],
)
def test_nothing_is_said_of_a_call_that_breaks_too_or_of_our_own_complaint(error, other):
    with pytest.raises(type(error)) as caught, noting("with another key", other):
        raise error
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize(
    ("got", "said", "diagnosis"),
    [
        ([1.0, 3.0], "returned one by one", "the-losses-are-returned-one-by-one"),
        ([1.0, 4.0], r"returned shape \(2,\), expected \(\)", "wrong-shape"),
    ],
)
def test_a_wrong_shape_is_named_if_a_mistake_has_it_and_its_values(got, said, diagnosis):
    mistakes = {"the losses are returned one by one": np.array([1.0, 3.0])}
    with pytest.raises(WrongAnswer, match=said) as caught:
        expect_close(observed(got), np.float64(2), "run_cross_entropy", mistakes=lambda: mistakes)
    assert caught.value.diagnosis == diagnosis


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_values_of_a_narrow_type_in_a_wide_tensor_are_named(dtype):
    right = np.random.default_rng(0).standard_normal(20)
    with pytest.raises(WrongAnswer, match=f"values pass through {dtype}"):
        expect_close(observed(rounded(right, dtype)), right, "run_linear")


def test_low_precision_is_not_named_where_the_right_values_or_the_answer_are_as_round():
    right = np.random.default_rng(0).standard_normal(20)
    narrow = observed(rounded(right * 1.01, "bfloat16"), "bfloat16")
    for found, expected, dtypes in (
        (observed(np.arange(8.0) + 0.125), np.arange(8.0), {}),
        (narrow, right, {"dtypes": "bfloat16"}),
    ):
        with pytest.raises(WrongAnswer) as caught:
            expect_close(found, expected, "run_linear", **dtypes)
        assert caught.value.diagnosis is None


def test_a_message_quotes_no_more_of_an_answer_than_anyone_reads():
    with pytest.raises(WrongAnswer) as raised:
        expect(False, "a" * 10**6)
    assert len(str(raised.value)) < 11_000
    with pytest.raises(WrongAnswer) as raised:
        expect_equal([(b"/a" * 10**6, b"x")], [(b"a", b"b")], "merges")
    assert len(str(raised.value)) < 11_000
