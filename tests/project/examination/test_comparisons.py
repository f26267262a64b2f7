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


def test_an_exception_says_nothing_of_another_call_that_breaks_as_well():
    with pytest.raises(KeyError) as caught, noting("with another key", breaks):
        raise KeyError
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("error", [WrongAnswer("wrong"), NotStarted("run_silu")])
def test_what_the_examination_says_itself_is_not_explained_again(error):
    with pytest.raises(type(error)) as caught, noting("with another key", works):
        raise error
    assert not hasattr(caught.value, "__notes__")


def test_a_wrong_shape_is_named_if_a_mistake_has_it():
    with pytest.raises(WrongAnswer, match="returned one by one") as caught:
        expect_close(
            observed([1.0, 3.0]),
            np.float64(2),
            "run_cross_entropy",
            mistakes=lambda: {"the losses are returned one by one": np.array([1.0, 3.0])},
        )
    assert caught.value.diagnosis == "the-losses-are-returned-one-by-one"


def test_a_wrong_shape_of_other_values_is_not_named():
    with pytest.raises(WrongAnswer, match=r"returned shape \(2,\), expected \(\)") as caught:
        expect_close(
            observed([1.0, 4.0]),
            np.float64(2),
            "run_cross_entropy",
            mistakes=lambda: {"the losses are returned one by one": np.array([1.0, 3.0])},
        )
    assert caught.value.diagnosis == "wrong-shape"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_values_of_a_narrow_type_in_a_wide_tensor_are_named(dtype):
    right = np.random.default_rng(0).standard_normal(20)
    with pytest.raises(WrongAnswer, match=f"values pass through {dtype}"):
        expect_close(observed(rounded(right, dtype)), right, "run_linear")


def test_low_precision_is_not_named_where_the_right_values_are_as_round():
    right = np.arange(8.0)
    with pytest.raises(WrongAnswer) as caught:
        expect_close(observed(right + 0.125), right, "run_linear")
    assert caught.value.diagnosis is None


def test_low_precision_is_not_named_where_the_answer_has_to_be_of_that_type():
    right = np.random.default_rng(0).standard_normal(20)
    narrow = rounded(right * 1.01, "bfloat16")
    with pytest.raises(WrongAnswer) as caught:
        expect_close(observed(narrow, "bfloat16"), right, "run_linear", dtypes="bfloat16")
    assert caught.value.diagnosis is None


def test_a_message_quotes_no_more_of_an_answer_than_anyone_reads():
    with pytest.raises(WrongAnswer) as raised:
        expect(False, "a" * 10**6)
    assert len(str(raised.value)) < 11_000
    with pytest.raises(WrongAnswer) as raised:
        expect_equal([(b"/a" * 10**6, b"x")], [(b"a", b"b")], "merges")
    assert len(str(raised.value)) < 11_000
