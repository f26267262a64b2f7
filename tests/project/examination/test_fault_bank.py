"""The bank is whole, and its runner tells what is judged rightly from what is not."""

import json
import os
from collections import Counter

import pytest
from bank.cases import load
from bank.patches import apply, write_repository
from bank.verdict import CONTROL, naming
from compare import EXPLANATION
from processes import python
from report import RUBRIC
from turns import todays

SAMPLE = {
    "rmsnorm: eps is missing": "rightly",
    "rmsnorm: eps missing (independent)": "rightly",
    "rmsnorm: the cube root (independent)": "not",
    "rmsnorm: as it is": "accepted",
    "rmsnorm: as it is (independent)": "accepted",
    "rmsnorm: by the vector norm": "accepted",
    "softmax: by logsumexp": "accepted",
    "gradient_clipping: float64 is refused": "accepted",
}
LIMITS = (
    "rmsnorm: exactly three axes",
    "cross_entropy: exactly two axes",
    "scaled_dot_product_attention: exactly one batch axis",
    "scaled_dot_product_attention: softmax by the fourth axis",
    "rope: a table shared by the class",
    "multihead_self_attention: one mask made once",
)
EXAMINE = """
import dataclasses, json, sys
from bank.cases import chosen
from bank.run import examine

def verdict(one):
    if one.case.kind == "limits":
        return "; ".join(one.complaints) or "right"
    return (one.naming if one.case.is_fault else "accepted") if one.is_right else "wrong"

sample, limits = map(json.loads, sys.argv[1:])
of_limits = chosen(limits, (), ["limits"])
cases = chosen(sample) + [dataclasses.replace(one, is_alone=True) for one in of_limits]
print(json.dumps([(one.case.title, verdict(one)) for one in examine(cases, 0, 2, lambda _: None)]))
"""
CASES = load("faults", "honest", "limits")
NUMBERS = {"faults": 670, "honest": 160, "limits": 130}


@pytest.mark.parametrize("kind", NUMBERS)
def test_there_are_enough_of_each_kind_in_every_problem(kind):
    problems = [case.problem for case in CASES if case.kind == kind]
    assert len(problems) >= NUMBERS[kind]
    assert set(problems) == set(RUBRIC)


def test_titles_are_unique_in_each_kind():
    again = Counter((case.kind, case.title) for case in CASES)
    assert [title for title, count in again.items() if count > 1] == []


def test_each_change_fits_its_implementation(tmp_path):
    for place, case in enumerate(CASES):
        (tmp_path / str(place)).mkdir()
        write_repository(case.patch, tmp_path / str(place))
    undefined = ["--select", "F821", "--isolated", "--no-cache", "--quiet"]
    assert python("-m", "ruff", "check", *undefined, tmp_path).stdout == ""


@pytest.mark.parametrize("source", ["another\n", "old\nold\n"])
def test_lines_that_are_missing_or_not_alone_are_refused(tmp_path, source):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "a.py").write_text(source)
    with pytest.raises(ValueError, match=r"tests/a\.py holds 'old\\n' [02] times"):
        apply([["tests/a.py", "old\n", "new\n"]], tmp_path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each case runs in a forked process")
def test_a_sample_is_judged_as_the_bank_says(pytestconfig):
    """Where slow tests run, another tenth of all limits each day; all: lab.campaigns.faults."""
    limits = [case.title for case in CASES if case.kind == "limits"]
    is_quick = pytestconfig.option.markexpr == "not slow"
    limits = LIMITS if is_quick else todays(limits, 10)
    path = {"OMP_NUM_THREADS": "1", "PYTHONPATH": "tests:tests/exam:tests/project"}
    asked = [json.dumps([*SAMPLE]), json.dumps(limits)]
    finished = python("-c", EXAMINE, *asked, env=os.environ | path, check=True)
    assert dict(json.loads(finished.stdout)) == SAMPLE | dict.fromkeys(limits, "right")


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
    assert naming(messages, ("betas are swapped", "the second is named first")) == expected


def test_each_limit_is_of_a_claim():
    for case in CASES:
        if case.kind == "limits":
            assert case.patch.more[0] in RUBRIC[case.problem]["claims"], case.title
