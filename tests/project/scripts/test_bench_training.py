"""The training benchmark: what its rows claim, and a worker that takes turns."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def training(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "maintain"))
    return importlib.import_module("benchmarks.training")


def test_goals_compare_with_the_right_peer(training):
    speeds = dict.fromkeys(training.MAIN, 1000.0) | {
        "ours, bfloat16": 1700.0,
        "ours, float32": 1100.0,
        "transformers, bfloat16, same allocator": 1400.0,
    }
    memory = dict.fromkeys(speeds, 1000.0) | {"ours, bfloat16": 590.0}
    results = {name: training.Result(speeds[name], 40.0, memory[name]) for name in speeds}
    rows = {row.name: row for row in training.main_rows(results, 415e9)}
    met = {name: row.met for name, row in rows.items() if row.goal is not None}
    assert met == {
        "speed (peer: transformers, bfloat16)": True,
        "speed (peer: transformers, bfloat16, same allocator)": False,
        "speed (peer: transformers, float32)": False,
        "peak memory (peer: transformers, bfloat16)": True,
        "peak memory (peer: transformers, bfloat16, same allocator)": True,
        "peak memory (peer: transformers, bfloat16, not compiled)": True,
        "share of the bfloat16 peak": False,
        "first step": True,
    }
    # 37.5 MFLOP a token: the whole square of scores counts (accounting.py).
    share = rows["share of the bfloat16 peak"].ours
    assert share == pytest.approx(1700 * 37.5e6 / 415e9, rel=0.02)


def test_each_step_is_compared_with_the_one_before(training):
    results = {f"step {i}": training.Result(100.0 * i, 1.0, 50.0) for i in (1, 2, 3)}
    rows = [row for row in training.step_rows(results) if row.unit == "tokens/s"]
    assert [row.peer for row in rows] == [None, 100.0, 200.0]


@pytest.mark.parametrize(("ours", "met"), [(240.0, True), (199.0, False)])
def test_the_lead_may_not_shrink_with_length_and_vocabulary(training, ours, met):
    main = {
        "ours, bfloat16": training.Result(200.0, 1.0, 1.0),
        "transformers, bfloat16, same allocator": training.Result(100.0, 1.0, 1.0),
    }
    both = {"ours": training.Result(ours, 1, 1.0), "peer": training.Result(100.0, 1, 1.0)}
    growth = dict.fromkeys(("context 1,024, batch 4", "width 512"), both)
    rows = training.growth_rows(growth, main)
    assert [row.met for row in rows] == [met, None, None, None]


def test_the_picture_is_drawn(training, tmp_path):
    results = {name: training.Result(1.0, 1.0, 1.0) for name in ("ours", "peer")}
    training.draw(results, results, {"width": results}, tmp_path / "training.png")
    assert (tmp_path / "training.png").read_bytes().startswith(b"\x89PNG")


def test_a_worker_says_its_first_update_every_turn_and_its_memory():
    contender = {"kind": "ours", "is_compiled": False, "batch_size": 1, "context_length": 8,
                 "vocab_size": 300, "d_model": 32, "dtype": "float32"}  # fmt: skip
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.training_worker", json.dumps(contender)],
        cwd=ROOT / "scripts",
        input="begin\nstep\nstep\n",
        capture_output=True,
        text=True,
        check=True,
    )
    first, one, two, peak_mb = map(float, finished.stdout.split())
    assert 0 < one < 10
    assert 0 < two < 10
    assert first > 0
    assert 100 < peak_mb < 5000


def test_a_worker_that_dies_is_named(training, monkeypatch):
    monkeypatch.setattr(training, "_started", lambda _: subprocess.Popen(
        [sys.executable, "-c", "input()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ))  # fmt: skip
    with pytest.raises(ValueError, match="short-lived: the process ended early"):
        training.race({"short-lived": training.OURS})
