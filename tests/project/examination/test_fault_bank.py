"""The fault bank is complete, and its runner tells a caught fault from a missed one."""

import inspect
import re
from collections import Counter
from pathlib import Path

import adapters
import pytest
from compare import EXPLANATION
from faults.bank import ADAPTERS, load
from faults.run import CONTROL, Failure, Result, naming

ROOT = Path(__file__).parents[3]
FAULTS = [case for case in load() if case.is_fault]
VARIANTS = [case for case in load() if not case.is_fault]


def test_bank_holds_enough_faults_and_variants():
    assert len(FAULTS) >= 250
    assert len(VARIANTS) >= 40


def test_bank_knows_every_adapter():
    public = inspect.getmembers(adapters, inspect.isfunction)
    names = {name for name, function in public if function.__module__ == adapters.__name__}
    assert names == {name for group in ADAPTERS.values() for name in group}
    assert len(names) == 21


def test_every_adapter_has_faults_and_every_problem_variants():
    replaced = {name for case in FAULTS for name in case.stand_ins}
    assert replaced == {name for group in ADAPTERS.values() for name in group}
    assert {case.problem for case in VARIANTS} == set(ADAPTERS)


def test_problems_of_the_bank_are_problems_of_the_examination():
    files = (ROOT / "tests").glob("test_*.py")
    examined = {
        name for file in files for name in re.findall(r'problem\("(\w+)"', file.read_text())
    }
    assert set(ADAPTERS) <= examined


def test_titles_are_unique():
    again = [title for title, count in Counter(case.title for case in load()).items() if count > 1]
    assert again == []


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (["shape (2,), expected (3,)"], "not"),
        ([f"{EXPLANATION} the betas\n are swapped."], "rightly"),
        ([f"{EXPLANATION} eps is missing."], "wrongly"),
        (["nothing is said", "the betas are swapped"], "rightly"),
        ([f"{EXPLANATION} the second is named first."], "rightly"),
        ([f"ValueError\n{CONTROL} if the betas are swapped."], "rightly"),
        ([f"ValueError\n{CONTROL} with a path."], "wrongly"),
        ([f"{EXPLANATION} eps is missing.", f"{EXPLANATION} the betas are swapped"], "wrongly"),
    ],
)
def test_a_fault_is_named_by_the_words_that_are_expected(messages, expected):
    failures = [Failure("item", message) for message in messages]
    assert naming(failures, ("betas are swapped", "the second is named first")) == expected


def test_an_explanation_where_none_is_expected_is_wrong():
    assert naming([Failure("item", f"{EXPLANATION} eps is missing.")], ()) == "wrongly"
    assert naming([Failure("item", "shape (2,), expected (3,)")], ()) == "not"


def test_what_hangs_is_neither_caught_nor_accepted():
    failed, hung = [Failure("item", "wrong")], "hung for 120 s"
    for case in (FAULTS[0], VARIANTS[0]):
        assert not Result(case, 0, [], failed, error=hung).is_right
        assert not Result(case, 0, [], [], error=hung).is_right
