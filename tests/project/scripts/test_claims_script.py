"""scripts/maintain/claims.py: after a kill nothing is measured twice; bad input is one line."""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NAMES = ["scale_and_shift", "gradients", "relation", "order", "errors"]
"""Files and a folder of rows that take milliseconds each."""


def command(out, *more):
    return [sys.executable, *map(str, [ROOT / "scripts/maintain/claims.py", *more, "--out", out])]


def kept(out):
    """Return what is kept, as (claim, seed) pairs with their values."""
    rows = [json.loads(path.read_text()) for path in (out / "rows").glob("*.json")]
    return {(row["claim"], seed): value for row in rows for seed, value in row["values"].items()}


def measured(printed):
    """Return the pairs that a call of the script says it measures."""
    return re.findall(r"^\[ *\d+/\d+\] ([\w-]+), seed (\d+)", printed, re.MULTILINE)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folder of a ledger that was killed after a few rows, and what it printed."""
    out = tmp_path_factory.mktemp("ledger") / "claims"
    with subprocess.Popen(command(out, *NAMES), stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while len(list(out.glob("rows/*.json"))) < 5:
            assert process.poll() is None, "it ended by itself"
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.kill()
        return out, process.stdout.read()


def test_after_a_kill_nothing_is_measured_twice(killed, tmp_path, script):
    out = shutil.copytree(killed[0], tmp_path / "claims")
    before = kept(out)
    assert len(before) >= 5
    result = script("maintain/claims", *NAMES, "--out", out)
    assert result.code == 0, result.err
    again, after = measured(result.out), kept(out)
    assert len(set(again)) == len(again) > 0
    assert not set(again) & before.keys()
    assert set(again) | before.keys() == after.keys()
    assert before.items() <= after.items()
    # The row in progress is all that the kill cost.
    assert len(set(measured(killed[1])) - before.keys()) <= 1
    third = script("maintain/claims", *NAMES, "--out", out)
    assert "everything is measured" in third.out
    assert measured(third.out) == []


def test_the_ledger_is_written_as_a_table_and_as_a_page(tmp_path, script):
    page = tmp_path / "page.html"
    docs = (ROOT / "docs" / "claims.md").read_bytes()
    result = script("maintain/claims", "keepdim", "sphere", "--seeds", "4", "5", "--out",
                    tmp_path / "claims", "--page", page)  # fmt: skip
    assert result.code == 0, result.err
    assert re.search(r"^keepdim +false$", result.out, re.MULTILINE)
    assert {seed for claim, seed in kept(tmp_path / "claims") if claim == "sphere"} == {"4", "5"}
    table = (tmp_path / "claims" / "claims.md").read_text()
    assert "true where the gain is 1" in table
    assert "not measured yet" in table
    assert "true where the gain is 1" in page.read_text()
    # Only a whole ledger becomes the repository's page.
    assert (ROOT / "docs" / "claims.md").read_bytes() == docs


def test_a_measurement_that_fails_costs_no_other(tmp_path, script, monkeypatch):
    monkeypatch.setattr("cs_basics.study.claims.forgets.relation.RMSNorm", None)
    result = script("maintain/claims", "relation", "gradients", "--seeds", "0", "--out", tmp_path)
    assert result.code == 2
    assert "error: not measured: same-on-centred (TypeError" in result.err
    assert ("gradient-orthogonal", "0") in kept(tmp_path)
    assert ("same-on-centred", "0") not in kept(tmp_path)


HOLD = (
    "import fcntl, sys; file = open(sys.argv[1], 'ab'); fcntl.lockf(file, fcntl.LOCK_EX); "
    "print(flush=True); input()"
)


def test_a_ledger_that_another_process_measures_is_left_alone(tmp_path, script):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    call = [sys.executable, "-c", HOLD, tmp_path / "lock"]
    with subprocess.Popen(call, **pipes, text=True) as other:
        other.stdout.readline()
        result = script("maintain/claims", "keepdim", "--out", tmp_path)
        other.communicate("\n")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert f"another process is training in {tmp_path}" in result.err
    assert not (tmp_path / "rows").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], ["no claim", "'nonsense'"]),
        (["keepdi"], ["did you mean keepdim"]),
        (["keepdim", "--seeds", "0", "0"], ["seeds=(0, 0)"]),
        (["keepdim", "--seeds", "-1"], ["seeds=(-1,)"]),
        (["keepdim", "--page", "Makefile/page.html"], ["Makefile is not a folder"]),
    ],
)
def test_bad_input_is_one_line(tmp_path, script, arguments, words):
    result = script("maintain/claims", *arguments, "--out", tmp_path / "claims")
    assert result.code == 2
    assert len(result.err.strip().splitlines()) == 1, result.err
    for word in words:
        assert word in result.err
    assert not (tmp_path / "claims").exists()
