"""The benchmarks run in small; those that need an hour say what they take."""

import runpy
import sys

import pytest
import torch

from lab.bench import norms
from lab.bench.measuring import show


def test_norms_are_measured(monkeypatch, capsys):
    pytest.importorskip("transformers", reason="needs the transformers package")
    small = {"ROWS": 4, "WIDTHS": (8,), "DTYPES": (torch.float32,), "BUDGET_S": 0.0}
    for name, value in small.items():
        monkeypatch.setattr(norms, name, value)
    monkeypatch.setattr(norms, "compiled", lambda function: function)
    show(norms.measure())
    assert "RMSNorm, forward, float32, 8 " in capsys.readouterr().out


@pytest.mark.parametrize(
    "module", ["bench", "bench.batch", "bench.measure_page", "bench.check_stories"]
)
def test_every_door_says_what_it_takes(module, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [module, "--help"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module(f"lab.{module}", run_name="__main__", alter_sys=True)
    assert stop.value.code == 0
    assert "usage" in capsys.readouterr().out
