"""The benchmarks run in small; those that need an hour say what they take."""

import runpy
import sys

import pytest
import torch

from lab.bench import measuring, norms
from lab.bench.measuring import Row, show, write_table


def test_norms_are_measured(monkeypatch, capsys):
    pytest.importorskip("transformers", reason="needs the transformers package")
    small = {"ROWS": 4, "WIDTHS": (8,), "DTYPES": (torch.float32,), "BUDGET_S": 0.0}
    for name, value in small.items():
        monkeypatch.setattr(norms, name, value)
    monkeypatch.setattr(norms, "compiled", lambda function: function)
    show(norms.measure())
    assert "RMSNorm, forward, float32, 8 " in capsys.readouterr().out


def test_a_table_takes_its_place_and_leaves_the_rest(tmp_path, monkeypatch):
    page = tmp_path / "performance.md"
    page.write_text("above\n<!-- python -m lab.bench training -->\nold\n<!-- end -->\nbelow\n")
    monkeypatch.setattr(measuring, "PAGE", page)
    write_table("training", [Row("speed", 3000.0, "tokens/s", 2000.0), Row("alone", 1.0, "s")])
    above, *_, row, alone, end, below = page.read_text().splitlines()
    assert (above, end, below) == ("above", "<!-- end -->", "below")
    assert row == "| speed | tokens/s | 3,000 | 2,000 | 1.50 |"
    assert alone == "| alone | s | 1 |  |  |"
    with pytest.raises(ValueError, match="tokenizer"):
        write_table("tokenizer", [])


@pytest.mark.parametrize(
    "module", ["bench", "bench.batch", "bench.measure_page", "bench.check_stories"]
)
def test_every_door_says_what_it_takes(module, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [module, "--help"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module(f"lab.{module}", run_name="__main__", alter_sys=True)
    assert stop.value.code == 0
    assert "usage" in capsys.readouterr().out
