"""What a benchmark writes, and what it takes."""

import runpy
import sys

import pytest

from lab.bench import measuring
from lab.bench.measuring import Row, write_table


def test_a_table_takes_its_place_and_leaves_the_rest(tmp_path, monkeypatch):
    page = tmp_path / "performance.md"
    page.write_text("above\n<!-- python -m lab.bench training -->\nold\n<!-- end -->\nbelow\n")
    monkeypatch.setattr(measuring, "PAGE", page)
    write_table("training", [Row("speed", 3000.0, "tokens/s", 2000.0), Row("alone", 1.0, "s")])
    above, *_, row, alone, end, below = page.read_text().splitlines()
    assert (above, end, below) == ("above", "<!-- end -->", "below")
    assert row == "| speed | tokens/s | 3,000 | 2,000 | 1.50 |"
    assert alone == "| alone | s | 1 |  |  |"
    write_table("training", [Row("alone", 2.0, "s")])
    *_, heading, alone, end, _ = page.read_text().splitlines()
    assert (heading, end) == ("|---|---|--:|--:|--:|", "<!-- end -->")
    assert alone == "| alone | s | 2 |  |  |"
    with pytest.raises(ValueError, match="tokenizer"):
        write_table("tokenizer", [])


def test_the_door_says_what_it_takes(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench", "--help"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("lab.bench", run_name="__main__", alter_sys=True)
    assert stop.value.code == 0
    assert "usage" in capsys.readouterr().out
