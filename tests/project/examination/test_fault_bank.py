"""The bank of faults is whole, and its runner tells a caught fault from a missed one."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from bank.cases import load
from bank.patches import Patch, apply, read
from bank.run import CONTROL, Failure, Result, naming
from compare import EXPLANATION
from report import RUBRIC

ROOT = Path(__file__).parents[3]
SAMPLE = {
    "rmsnorm: eps is missing": "rightly",
    "rmsnorm: eps missing (independent)": "rightly",
    "rmsnorm: eps is always 1e-6 (compact)": "rightly",
    "rmsnorm: the cube root (compact)": "not",
    "rmsnorm: as it is": "accepted",
    "rmsnorm: as it is (compact)": "accepted",
    "rmsnorm: by the vector norm": "accepted",
    "softmax: by logsumexp": "accepted",
}
EXAMINE = """
import json, sys
from bank.cases import chosen
from bank.run import examine

def verdict(one):
    return (one.naming if one.case.is_fault else "accepted") if one.is_right else "wrong"

results = examine(chosen(sys.argv[1:]), 0, 2, lambda _: None)
print(json.dumps([(one.case.title, verdict(one)) for one in results]))
"""
FAULTS = [case for case in load() if case.is_fault]
HONEST = [case for case in load() if not case.is_fault]


def test_every_problem_has_faults_and_honest_variants():
    assert len(FAULTS) >= 700
    assert {case.problem for case in FAULTS} == {case.problem for case in HONEST} == set(RUBRIC)


def test_titles_are_unique():
    again = [title for title, count in Counter(case.title for case in load()).items() if count > 1]
    assert again == []


def test_a_patch_goes_on_in_other_places_and_other_files(tmp_path):
    text = tmp_path / "some.txt"
    text.write_text("== p | n | a.py | w | v\n-one\n+two\n-three\n@ tests/b.py\n-four\n+five\n")
    (patch,) = read(text)
    places = [
        ["a.py", "one\n", "two\n"],
        ["a.py", "three\n", ""],
        ["tests/b.py", "four\n", "five\n"],
    ]
    assert patch == Patch("p", "n", "book", ["w", "v"], places)


@pytest.mark.parametrize("source", ["another\n", "old\nold\n"])
def test_lines_that_are_missing_or_not_alone_are_refused(tmp_path, source):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "a.py").write_text(source)
    with pytest.raises(ValueError, match=r"tests/a\.py holds 'old\\n' [02] times"):
        apply([["tests/a.py", "old\n", "new\n"]], tmp_path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each case runs in a forked process")
def test_a_sample_is_caught_and_named_and_accepted():
    """All of it: python -m lab.campaigns.faults."""
    finished = subprocess.run(
        [sys.executable, "-c", EXAMINE, *SAMPLE],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": "tests:tests/exam:tests/project"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert dict(json.loads(finished.stdout)) == SAMPLE


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
    for case in (FAULTS[0], HONEST[0]):
        assert not Result(case, 0, [], failed, error=hung).is_right
        assert not Result(case, 0, [], [], error=hung).is_right
