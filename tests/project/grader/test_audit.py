"""What a submission does beside its work is told, and of honest work nothing is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from audit_cases import ATTACKS, HONEST, module_of

from cs_grader.sandbox.audit import KNOWN

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each case runs in a fork")


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What was told of each case; one process that imports torch for all."""
    finished = subprocess.run(
        [
            *(sys.executable, "-W", "ignore", str(Path(__file__).with_name("audit_cases.py"))),
            str(tmp_path_factory.mktemp("audit")),
        ],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


@pytest.mark.parametrize("what", ATTACKS)
def test_what_is_done_beside_the_work_is_told_with_its_file(told, what):
    assert what in [entry[0] for entry in told[what]]
    assert {entry[1] for entry in told[what]} == {f"{module_of(what)}.py"}


@pytest.mark.parametrize("name", HONEST)
def test_nothing_is_told_of_honest_work(told, name):
    assert told[name] == []


def test_whatever_is_told_is_known_outside():
    assert {*ATTACKS} <= KNOWN
