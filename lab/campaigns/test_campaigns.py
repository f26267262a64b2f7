"""Each campaign in seconds: what it prints when all is well, and that it sees what is not."""

import os
import subprocess
import sys

import pytest

from lab import ROOT
from lab.campaigns.fuzz.trial import Ending

SMALL = {
    "seeds": (["--count", "2", "--problem", "silu"], "2 seeds from 1 on: 0 of"),
    "chaos": (["--kills", "1"], "bit for bit"),
    "fuzz": (["--files", "4"], "4 damaged files: 0 bad"),
    "faults": (
        ["--seeds", "0", "--only", "softmax: torch's own softmax", "eps is added outside"],
        "",
    ),
    "clusters": (
        ["--hidden", "3", "--hands", "2", "--size", "12", "--problem", "softmax"],
        "3 hidden mistakes",
    ),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_small_campaign_finds_nothing_wrong(name):
    options, said = SMALL[name]
    finished = subprocess.run(
        [sys.executable, "-m", f"lab.campaigns.{name}", *options],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert said in finished.stdout


def test_what_a_script_must_not_do_is_noticed():
    good = {"code": 2, "out": "", "err": "error: no\n", "elapsed_s": 1.0, "peak_bytes": 10**6}
    assert Ending(**good).complaints() == []
    for bad in (
        {"code": 1},
        {"err": ""},
        {"err": "error: no\nerror: again\n"},
        {"peak_bytes": 2 * 10**9},
    ):
        assert len(Ending(**good | bad).complaints()) == 1
