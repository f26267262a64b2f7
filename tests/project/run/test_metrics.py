"""Metrics: the file is the truth and survives what runs do not."""

import logging

import pytest

from cs_basics.run.metrics import (
    Console,
    MetricsLog,
    format_duration,
    read_metrics,
    read_samples,
)


@pytest.mark.parametrize("line", ["[" * 100_000, '{"step": ' + "9" * 5_000 + "}", "3"])
def test_a_broken_line_is_warned_of_once(tmp_path, caplog, line):
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"step": 1}}\n{line}\n')
    with MetricsLog(path, num_bytes=path.stat().st_size) as log:
        assert log.rows == [{"step": 1}]
    assert caplog.text.count("not a row") == 1


def test_resuming_drops_what_is_of_lost_updates_and_the_torn_line(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with MetricsLog(path) as log:
        log.log({"step": 5, "train/loss": 2.0})
        log.log_sample(5, "Once\nupon <a> time \u2603")
        num_bytes = log.sync()
    with path.open("a") as file:
        file.write('{"step": 6}\n{"st')
    with MetricsLog(path, num_bytes) as log:
        log.log({"step": 6, "train/loss": 1.0})
        assert log.samples == read_samples(path) == [(5, "Once\nupon <a> time \u2603")]
    assert read_metrics(path) == log.rows
    assert log.rows == [{"step": 5, "train/loss": 2.0}, {"step": 6, "train/loss": 1.0}]


def test_a_file_that_lost_more_than_the_checkpoint_allows_goes_on_after_a_whole_line(
    tmp_path, caplog
):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 5, "tr')
    with MetricsLog(path, num_bytes=500) as log:
        assert log.sync() == len('{"step": 1}\n')
        log.log({"step": 6})
        assert log.sync() == path.stat().st_size
    assert "rows are missing" in caplog.text
    assert read_metrics(path) == [{"step": 1}, {"step": 6}]


def test_a_row_is_shown_to_people(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    with MetricsLog(tmp_path / "m.jsonl") as log:
        log.add(Console())
        log.log(
            {
                "step": 1200,
                "train/loss": 2.5,
                "optim/lr": 3e-3,
                "perf/tokens_per_s": 8100.4,
                "perf/mfu": 0.652,
                "perf/peak_memory_mb": 1040.2,
                "perf/seconds_left": 61.0,
            }
        )
        log.log({"step": 1201, "perf/tokens_per_s": 8100.4})
    line = "step  1,200 | loss 2.500 | lr 3.0e-03 |   8,100 tokens/s | 65% of peak | 1,040 MB"
    assert f"{line} | 1m 01s left" in caplog.text
    assert caplog.messages[-1].endswith("tokens/s"), "what is not known is left out"


class Copy:
    """A sink that keeps its own rows, and fails at one of them."""

    def __init__(self):
        self.rows = []

    def log(self, row):
        if row["step"] == 8:
            raise OSError("no space left")
        self.rows.append(row)


def test_the_failure_of_a_sink_costs_nothing_else(tmp_path, caplog):
    sink = Copy()
    with MetricsLog(tmp_path / "metrics.jsonl") as log:
        log.add(sink)
        for step in (7, 8, 9):
            log.log({"step": step})
    assert sink.rows == [{"step": 7}]
    assert [row["step"] for row in log.rows] == [7, 8, 9]
    assert caplog.messages == ["Copy gets no more metrics: no space left"]


def test_the_beginning_of_a_sample_is_shown_and_no_terminal_obeys_it(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    with MetricsLog(tmp_path / "m.jsonl") as log:
        log.log_sample(250, "Once\n\x1b[2Jupon" + " a" * 200)
        log.log_sample(500, "\n\x00 ")
    first, second = caplog.messages
    assert first.startswith("step    250 | writes: Once [2Jupon a a a")
    assert len(first) < 150
    assert second == "step    500 | writes: (nothing visible)"


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.4, "4s"), (60, "1m 00s"), (3599.6, "1h 00m"), (7500, "2h 05m")]
)
def test_durations_read_as_people_say_them(seconds, text):
    assert format_duration(seconds) == text
