"""A short form of `make fuzz`, and that it would notice what it looks for."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.trial import ROOT, Ending, run_script

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

GOOD = Ending(code=2, out="", err="error: no\n", elapsed_s=1.0, peak_bytes=1_000_000)


def test_damaged_files_cost_one_line_and_nothing_else(tmp_path):
    command = [sys.executable, "-m", "fuzz", "--files", "20", "--first", "100000"]
    result = subprocess.run(
        [*command, "--keep", str(tmp_path)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "20 damaged files: 0 bad" in result.stdout


def test_a_case_is_the_same_each_time(tmp_path):
    from fuzz.damage import flip_bits, overwrite

    for damage in (flip_bits, overwrite):
        files = [tmp_path / "a", tmp_path / "b"]
        for file in files:
            file.write_bytes(bytes(range(256)) * 10)
            damage(file, random.Random(5))
        assert files[0].read_bytes() == files[1].read_bytes() != bytes(range(256)) * 10


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({}, None),
        ({"code": 0, "err": ""}, None),
        ({"code": 0, "err": "encoding: 1 of 1 MB\n"}, None),
        ({"code": 1}, "exit code 1"),
        ({"code": -11}, "exit code -11"),
        ({"code": -24}, "hang"),
        ({"err": "Traceback (most recent call last)\nerror: no\n"}, "traceback"),
        ({"err": "error: no\nerror: again\n"}, "2 lines"),
        ({"err": ""}, "0 lines"),
        ({"peak_bytes": 2 * 10**9}, "memory"),
    ],
)
def test_what_a_script_must_not_do_is_noticed(changes, complaint):
    fields = {name: getattr(GOOD, name) for name in Ending.__dataclass_fields__}
    complaints = Ending(**fields | changes).complaints()
    assert len(complaints) == (complaint is not None)
    assert complaint is None or complaint in complaints[0]


BAD = {
    "traceback": "raise KeyError('x')",
    "exit code": "import os; os._exit(3)",
    "memory": "block = bytearray(1_500_000_000); block[::4096] = b'x' * len(block[::4096])",
    "hang": "import resource, signal; resource.setrlimit(resource.RLIMIT_CPU, (1, 2))\nwhile 1: 0",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_script_is_caught(name, tmp_path, monkeypatch):
    (tmp_path / "bad.py").write_text(BAD[name])
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr("fuzz.trial.SCRIPTS", tmp_path)
    complaints = run_script(["bad"], tmp_path / "folder").complaints()
    assert any(name in complaint for complaint in complaints), complaints


def test_make_fuzz_runs_a_thousand_files():
    assert "-m fuzz --files 1000" in (ROOT / "Makefile").read_text()
