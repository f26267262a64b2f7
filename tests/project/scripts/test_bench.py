"""The benchmark's clockwork: turns, medians, goals, what it prints."""

import importlib
import itertools
import json
import os
import sys
from pathlib import Path

import pytest
import torch

from cs_basics.study import timing

ROOT = Path(__file__).parents[3]


@pytest.fixture
def measuring(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "maintain"))
    return importlib.import_module("benchmarks.measuring")


@pytest.fixture
def clock(measuring, monkeypatch):
    """A clock that stands still unless it is told to go on."""

    class Clock:
        now = 0.0

        def advance(self, seconds):
            self.now += seconds

    stopped = Clock()
    monkeypatch.setattr(measuring.time, "perf_counter", lambda: stopped.now)
    return stopped


def test_functions_are_measured_in_turns_after_one_call_that_does_not_count(measuring):
    called = []
    functions = [lambda: called.append("a"), lambda: called.append("b")]
    assert len(measuring.alternating_times(functions, rounds=8)) == 2
    turns = ["".join(called[place : place + 2]) for place in range(0, len(called), 2)]
    assert len(turns) == 9
    # Whoever always came second would find the caches as the first leaves them.
    assert set(turns) == {"ab", "ba"}


def test_times_belong_to_their_functions_whatever_the_order(measuring, clock):
    functions = [lambda s=s: clock.advance(s) for s in (1.0, 2.0, 4.0)]
    assert measuring.alternating_times(functions, rounds=9) == [1.0, 2.0, 4.0]


def test_the_time_of_a_function_is_the_median_of_its_turns(measuring, clock):
    lengths = iter([100.0, 1.0, 9.0, 2.0])
    median_s = measuring.median_time(lambda: clock.advance(next(lengths)), rounds=3)
    assert median_s == 2.0


@pytest.mark.parametrize(("budget_s", "calls"), [(0.5, 3), (4.5, 5), (100.0, 9), (None, 9)])
def test_a_spent_budget_ends_the_turns_but_not_before_three(measuring, clock, budget_s, calls):
    counted = itertools.count(-1)
    last = 0

    def call():
        nonlocal last
        last = next(counted)
        clock.advance(1.0)

    measuring.alternating_times([call], rounds=9, budget_s=budget_s)
    assert last + 1 == calls


@pytest.mark.parametrize(
    ("bound", "ours", "met"),
    [
        ({"at_most": 0.85}, 0.85, True),
        ({"at_most": 0.85}, 0.86, False),
        ({"at_least": 0.6}, 0.6, True),
        ({"at_least": 0.6}, 0.59, False),
        ({}, 5.0, None),
    ],
)
def test_a_goal_is_a_bound_on_the_ratio(measuring, bound, ours, met):
    row = measuring.compare("speed", 100 * ours, 100, "ms", **bound)
    assert row.ratio == pytest.approx(ours)
    assert row.met is met
    assert (row.goal is None) == (met is None)


def test_the_machine_is_described():
    said = timing.machine()
    assert f"{torch.get_num_threads()} threads" in said
    assert torch.__version__ in said


def test_a_system_that_does_not_tell_its_cache_has_none(monkeypatch):
    monkeypatch.setattr(Path, "glob", lambda *_: iter(()))
    assert timing.cache_bytes(torch.device("cpu")) is None


@pytest.fixture
def two_rows(measuring, monkeypatch):
    """A pipeline that took no time: one row with a goal and one without anything."""
    pipeline = importlib.import_module("benchmarks.pipeline")
    rows = [measuring.compare("fast", 3.0, 2.0, "ms", at_most=1.2), measuring.Row("alone", 7, "s")]
    monkeypatch.setattr(pipeline, "measure", lambda: measuring.Report(rows, details={"extra": 1}))


@pytest.mark.usefixtures("two_rows")
def test_json_is_one_object_with_the_machine_and_the_rows(script):
    result = script("maintain/bench", "pipeline", "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert set(found) == {"machine", "rows", "extra"}
    assert found["rows"] == [
        {"name": "fast", "ours": 3.0, "peer": 2.0, "unit": "ms", "ratio": 1.5,
         "goal": "at most 1.2 x", "met": False},
        {"name": "alone", "ours": 7, "peer": None, "unit": "s", "ratio": None,
         "goal": None, "met": None},
    ]  # fmt: skip


@pytest.mark.usefixtures("two_rows")
def test_the_table_says_which_goals_are_missed(script):
    lines = script("maintain/bench", "pipeline").out.splitlines()
    fast = next(line for line in lines if line.startswith("fast"))
    assert fast.split()[1:] == ["3", "2", "ms", "1.50", "at", "most", "1.2", "x:", "MISSED"]
    alone = next(line for line in lines if line.startswith("alone"))
    assert alone.split()[1:] == ["7", "s"]


def test_a_picture_of_a_subject_without_one_is_refused_in_one_line(script, tmp_path):
    result = script("maintain/bench", "pipeline", "--plot", tmp_path / "none.png")
    assert (result.code, result.out) == (2, "")
    said = "pipeline has no picture; norms, tokenizer, training, loss have one"
    assert result.err == f"error: --plot: {said}\n"


def test_a_text_for_a_subject_that_reads_none_is_refused_in_one_line(script):
    for more in (("--train-text", "a.txt", "--valid-text", "b.txt"), ("--minutes", "1")):
        result = script("maintain/bench", "norms", *more)
        assert (result.code, result.out) == (2, "")
        said = "--train-text, --valid-text and --minutes are for loss, not norms"
        assert result.err == f"error: {said}\n"


@pytest.mark.usefixtures("measuring")
def test_a_worker_that_has_died_is_named():
    module = importlib.import_module("benchmarks.worker")
    with module.Worker("ours, rate 1", [sys.executable, "-c", ""], os.environ) as worker:
        worker.process.wait()
        for _ in range(2):
            with pytest.raises(ValueError, match="ours, rate 1: the process ended early"):
                worker.ask("begin")


def test_a_picture_that_cannot_be_written_is_refused_before_measuring(script, tmp_path):
    (tmp_path / "file").touch()
    result = script("maintain/bench", "norms", "--plot", tmp_path / "file" / "norms.png")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
