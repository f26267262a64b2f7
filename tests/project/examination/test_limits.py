"""Right work that stops at one difficulty is charged for that alone, and told what it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bank.limits import Cost, load
from bank.run import Failure

PROJECT = Path(__file__).parents[1]
SAMPLE = (
    "rmsnorm: exactly three axes",
    "cross_entropy: exactly two axes",
    "scaled_dot_product_attention: exactly one batch axis",
    "scaled_dot_product_attention: softmax by the fourth axis",
    "rope: a table shared by the class",
    "multihead_self_attention: one mask made once",
)


def run(*options):
    return subprocess.run(
        [sys.executable, "-m", "bank", "--alone", *options],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def test_bank_holds_enough_limits_each_with_a_title_of_its_own():
    titles = [limit.title for limit in load()]
    assert len(titles) >= 40
    assert sorted(set(titles)) == sorted(titles)


def test_whatever_a_limit_should_not_do_is_said():
    limit = load()[0]
    failures = [Failure("inside", limit.words)]

    def complaints(limit=limit, inside=("inside",), outside=(), lost=0.0, naming="rightly"):
        return Cost(limit, inside, outside, {"p": lost}, naming, failures).complaints

    assert complaints() == []
    assert complaints(outside=["another"]) == ["fails another"]
    assert complaints(inside=()) == ["no item of its claim fails"]
    assert complaints(naming="wrongly") == ["named wrongly"]
    assert complaints(lost=float(limit.most) + 0.01) == ["p loses 21.0%"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each limit runs in a forked process")
def test_limits_cost_what_they_may(pytestconfig):
    """All of them, or a sample where slow tests are left out."""
    only = ["--only", *SAMPLE] if pytestconfig.option.markexpr == "not slow" else []
    finished = run(*only)
    count = len(SAMPLE) if only else len(load())
    assert f"{count} limits, 0 with a complaint" in finished.stdout, finished.stdout
