"""The fault bank is complete, and its runner tells a caught fault from a missed one."""

import inspect
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import adapters
import pytest
from compare import EXPLANATION
from faults.bank import ADAPTERS, chosen, load
from faults.report import Totals, markdown
from faults.run import CONTROL, Failure, Result, naming

ROOT = Path(__file__).parents[3]
FAULTS = [case for case in load() if case.is_fault]
VARIANTS = [case for case in load() if not case.is_fault]

# A right answer that is called a fault, and a wrong one that is called a variant.
WITH_FALSE_ENTRIES = """
import runpy, sys
sys.path[:0] = ["tests/project", "tests", "scripts", "scripts/maintain"]
from faults.bank import REFERENCE, fault, variant
fault("softmax", "false entry: nothing is wrong")(REFERENCE.run_softmax)
variant("softmax", "false entry: all is wrong")(lambda in_features, dim: in_features * 0)
runpy.run_path("scripts/maintain/faults.py", run_name="__main__")
"""
SAMPLE = (
    "rmsnorm: eps is added outside the root",
    "rope: positions count from 1",
    "cross_entropy: the loss is in bits",
    "adamw: the betas are swapped",
    "learning_rate_schedule: the decay is linear",
    "train_bpe: ties go to the smaller pair",
    "embedding: torch's own embedding",
    "softmax: torch's own softmax",
    "multihead_self_attention: a projection for each head",
    "checkpointing: torch.save and torch.load",
    "adamw: torch's own AdamW",
)


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


def test_report_counts_and_lists_what_is_missed():
    caught = Result(FAULTS[0], 0, [], [Failure("item", FAULTS[0].diagnosis[0])])
    missed = Result(FAULTS[1], 0, [], [])
    failed = Result(VARIANTS[0], 0, [], [Failure("item", "too strict")])
    results = [caught, missed, failed]
    assert Totals.of(results) == Totals(2, 1, 1, 0, 0, 1, variants=1, accepted=0)
    text = markdown(results, "2001-02-03", elapsed_s=1)
    missed_part = text.split("## Missed")[1].split("##")[0]
    assert FAULTS[1].title in missed_part
    assert FAULTS[0].title not in missed_part
    assert f"{VARIANTS[0].title}**: `item`: too strict" in text


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="each fault runs in a forked process")
def test_faults_are_caught_and_named_and_false_entries_found_out():
    assert sorted(case.title for case in chosen(SAMPLE)) == sorted(SAMPLE)
    finished = subprocess.run(
        [
            sys.executable,
            "-c",
            WITH_FALSE_ENTRIES,
            "--seeds",
            "3",
            "--only",
            *SAMPLE,
            "false entry",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        timeout=120,
    )
    said = finished.stdout
    assert "6 of 7 faults caught; named rightly 6 " in said, said + finished.stderr
    assert "5 of 6 variants accepted" in said
    assert "Missed: **softmax: false entry: nothing is wrong**" in said
    assert "Variants failed: **softmax: false entry: all is wrong**" in said
    assert finished.returncode == 1
