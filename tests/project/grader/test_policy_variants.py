"""Honest ways to solve the problems pass with everything forbidden blocked (faults: the bank)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bank.cases import load

# Right by their numbers, and made of the very operators that the problem is about.
NOT_FROM_SCRATCH = {
    "softmax: the exponential of log-softmax",
    "softmax: the maximum is detached",
    "softmax: by logsumexp",
    "cross_entropy: by logsumexp over any number of axes",
    "cross_entropy: by log-softmax in float32",
    "scaled_dot_product_attention: einsum",
    "multihead_self_attention: einsum over heads (compact)",
    "multihead_self_attention: a module with a mask in a buffer, for three axes",
}


def is_of_torch(title):
    return "torch's" in title or title in NOT_FROM_SCRATCH


TITLES = sorted(case.title for case in load() if not case.is_fault)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="each variant runs in a forked process")
def test_variants_pass_unless_they_are_made_of_forbidden_operators():
    """Every eighth of them; `make zoo` runs all."""
    check_variants(TITLES[::8])


def check_variants(titles):
    """Run these variants with everything forbidden blocked, and judge what becomes of them."""
    finished = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            str(Path(__file__).with_name("policy_variants.py")),
            *titles,
        ],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    seen = json.loads(finished.stdout.splitlines()[-1])
    assert seen["variants"] > len(titles) / 2
    blocked = {title for title, words in seen["failed"].items() if "ForbiddenOperator" in words}
    assert set(seen["failed"]) == blocked, seen["failed"]
    # What is torch's and forbidden nowhere, such as torch.save, passes.
    assert NOT_FROM_SCRATCH & {*titles} <= blocked <= {*filter(is_of_torch, titles)}
