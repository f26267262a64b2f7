"""The benchmarks run; their tables and pictures come out."""

import subprocess
import sys

import pytest

from lab import ROOT
from lab.bench import norm_points, norms

TINY = {"NUM_ROWS": (4, 1), "WIDTHS": (8, 16), "WIDTH_OF_ALL_ROWS": 16, "GOAL_WIDTHS": (16,)}


def test_norms_are_measured_and_drawn(monkeypatch, tmp_path):
    for name, value in TINY.items():
        monkeypatch.setattr(norms, name, value)
    monkeypatch.setattr(norms, "reason_not_to_compile", lambda _: "no compiler in this test")
    monkeypatch.setattr(norm_points, "BUDGET_S", 0.0)
    report = norms.measure()
    assert "norm, forward, float32, 4 x 16: RMSNorm (peer: LayerNorm)" in [
        r.name for r in report.rows
    ]
    report.draw(tmp_path / "norms.png")
    assert (tmp_path / "norms.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "module", ["bench", "bench.batch", "bench.measure_page", "bench.check_stories"]
)
def test_every_door_says_what_it_takes(module):
    command = [sys.executable, "-m", f"lab.{module}", "--help"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
