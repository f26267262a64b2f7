"""Each campaign in seconds: what it prints when all is well."""

import os

import pytest
from processes import python
from torch.nn.functional import silu

from lab.campaigns import ready_made

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


def test_a_ready_made_answer_is_found_behind_what_crashes_and_what_is_blocked(monkeypatch):
    calls = {
        "crashes": lambda _: os.abort(),
        "is blocked": silu,
        "has it": lambda x: x / (1 + (-x).exp()),
    }
    monkeypatch.setattr(ready_made, "reachable", lambda: iter(calls.items()))
    question = ready_made.questions()["silu"]
    assert ready_made.found_for("silu", question) == ["has it"]
