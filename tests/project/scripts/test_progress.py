"""The line that shows how far work is: its rate is that of the stage, not of the whole script."""

import runpy
from types import SimpleNamespace

import pytest
from processes import ROOT


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands until it is set."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("time.monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def show(clock):
    """The callback, for a file: a line each ten seconds, and one at the end of a stage."""
    assert clock.now == 0
    return runpy.run_path(str(ROOT / "scripts" / "cli.py"))["progress_printer"]()


def test_a_line_has_the_rate_and_the_time_left(show, clock, capsys):
    for clock.now, done in ((0, 0), (4, 10), (20, 40), (22, 80), (30, 100)):
        show("encoding", "bytes", done * 1_000_000, 100_000_000)
    assert capsys.readouterr().err.splitlines() == [
        "encoding: 40.0 of 100.0 MB (40%), 2.0 MB/s, 30 s left",
        "encoding: 100.0 of 100.0 MB (100%), 3.3 MB/s, 0 s left",
    ]


def test_a_stage_begins_with_its_first_call(show, clock, capsys):
    show("counting", "merges", 10, 10)
    # Minutes that no stage is about.
    for clock.now, done in ((600, 0), (604, 10), (620, 40)):
        show("evaluating", "tokens", done, 80)
    assert capsys.readouterr().err.splitlines() == [
        "counting: 10 of 10 merges (100%)",
        "evaluating: 10 of 80 tokens (12%), 2 tokens/s, 28 s left",
        "evaluating: 40 of 80 tokens (50%), 2 tokens/s, 20 s left",
    ]


def test_the_same_work_on_another_file_is_a_stage_of_its_own(show, clock, capsys):
    for clock.now, done, total in ((0, 0, 9), (9, 9, 9), (9, 9, 9), (100, 0, 6), (103, 6, 6)):
        show("encoding", "texts", done, total)
    assert capsys.readouterr().err.splitlines() == [
        "encoding: 9 of 9 texts (100%), 1 texts/s, 0 s left",
        "encoding: 6 of 6 texts (100%), 2 texts/s, 0 s left",
    ]
