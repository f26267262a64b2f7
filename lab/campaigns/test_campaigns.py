"""Each campaign in seconds: what it prints when all is well."""

import os

import pytest
from processes import python

SMALL = {
    "chaos": (["--kills", "1", "--steps", "60"], "bit for bit"),
    "mutants": (
        ["cs_basics/variants", "tests/project/variants/test_muon.py", "--count", "1"],
        "cs_basics/variants/",
    ),
    "faults": (
        ["--seeds", "0", "--only", "softmax: torch's own softmax", "eps is added outside"],
        "| all |",
    ),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_small_campaign_finds_nothing_wrong(name):
    options, said = SMALL[name]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    finished = python("-m", f"lab.campaigns.{name}", *options, env=environment)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert said in finished.stdout
