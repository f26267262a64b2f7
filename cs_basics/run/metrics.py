"""Metrics of a run: stored in metrics.jsonl and passed on to sinks."""

import contextlib
import json
import logging
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, Self

logger = logging.getLogger(__name__)

SHOWN = 120
"""Characters of a sample that the terminal shows; the report has all of it."""

# What the console shows of a row, if the row has it.
ON_CONSOLE = {
    "step": "step {step:>6,.0f}",
    "train/loss": "loss {train/loss:.3f}",
    "val/loss": "validation {val/loss:.3f} = {val/bits_per_byte:.3f} bits/byte",
    "final/loss": "whole validation text {final/loss:.3f} = {final/bits_per_byte:.3f} bits/byte",
    "optim/lr": "lr {optim/lr:.1e}",
    "perf/tokens_per_s": "{perf/tokens_per_s:>7,.0f} tokens/s",
    "perf/mfu": "{perf/mfu:.0%} of peak",
    "perf/peak_memory_mb": "{perf/peak_memory_mb:,.0f} MB",
}

Row = dict[str, float]
Sample = tuple[int, str]
"""A step, and a text that the model generated after it."""


def bits_per_byte(loss: float, bytes_per_token: float) -> float:
    """Convert a loss in nats per token to bits per byte, comparable between vocabularies."""
    return loss / math.log(2) / bytes_per_token


def read_metrics(path: Path) -> list[Row]:
    """Return the rows of metrics of a metrics.jsonl; a broken line is skipped with a warning."""
    return _read(path)[0]


def read_samples(path: Path) -> list[Sample]:
    """Return the sampled texts of a metrics.jsonl; a broken line is skipped with a warning."""
    return _read(path)[1]


def _read(path: Path) -> tuple[list[Row], list[Sample]]:
    rows = _read_lines(path)
    samples = [(row["step"], row["sample"]) for row in rows if "sample" in row]
    return [row for row in rows if "sample" not in row], samples


def _read_lines(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if isinstance(row, dict) and "step" in row:
                rows.append(row)
            else:
                logger.warning("%s: skipped a line that is not a row: %.60s", path, line)
    return rows


class Sink(Protocol):
    """Where each row of metrics goes besides metrics.jsonl.

    A sink that raises is reported in one line and gets no more rows: the training goes on.
    """

    def log(self, row: Row) -> None:
        """Take one row."""
        ...


class Console(Sink):
    """Prints rows."""

    def log(self, row: Row) -> None:
        """Print a row."""
        logger.info("%s", _console_line(row))


class MetricsLog:
    """Append rows to metrics.jsonl and pass them on to the sinks.

    Args:
        path: The metrics.jsonl; None: nothing is stored.
        num_bytes: Length of the file when the checkpoint was saved that the run resumes from. Rows
            after that belong to updates that will be repeated, and are removed.

    Attributes:
        sinks: Where rows go (`add`).
    """

    def __init__(self, path: Path | None, num_bytes: int = 0) -> None:
        self.rows: list[Row] = []
        self.samples: list[Sample] = []
        self.sinks: list[Sink] = []
        self._file = None
        if path is not None:
            self._file = path.open("a", encoding="utf-8")
            _cut(path, num_bytes)
            self.rows, self.samples = _read(path)

    def log(self, row: Row) -> None:
        """Store one row and pass it on."""
        if self._file is None:
            return
        self.rows.append(row)
        self._append(row)
        for sink in list(self.sinks):
            try:
                sink.log(row)
            except Exception as error:
                self.sinks.remove(sink)
                logger.warning("%s gets no more metrics: %s", type(sink).__name__, error)

    def add(self, sink: Sink) -> None:
        """Let a sink have each row from now on."""
        self.sinks.append(sink)

    def log_sample(self, step: int, text: str) -> None:
        """Store a text that the model generated after a step, and show its beginning."""
        self.samples.append((step, text))
        self._append({"step": step, "sample": text})
        # A terminal would obey control characters.
        printable = "".join(filter(str.isprintable, " ".join(text.split())))
        logger.info("step %6s | writes: %s", f"{step:,}", printable[:SHOWN] or "(nothing visible)")

    def _append(self, row: Mapping[str, float | str]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()

    def sync(self) -> int:
        """Flush all rows to the disk (fsync); return the length of the file in bytes."""
        assert self._file is not None
        os.fsync(self._file.fileno())
        return os.fstat(self._file.fileno()).st_size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            # Each row was flushed: what is left is of one whose error is on its way.
            with contextlib.suppress(OSError):
                self._file.close()


def _cut(path: Path, num_bytes: int) -> None:
    """Truncate a file to at most num_bytes, at the end of a line."""
    with path.open("rb+") as file:
        content = file.read(num_bytes)
        whole = content.rfind(b"\n") + 1
        if whole < num_bytes:
            logger.warning("%s has lost its end: rows are missing", path)
        file.truncate(whole)


def _console_line(row: Row) -> str:
    """Format a row for the console."""
    parts = [text for name, text in ON_CONSOLE.items() if name in row]
    line = " | ".join(parts).format_map(row)
    if "perf/seconds_left" in row:
        line += f" | {format_duration(row['perf/seconds_left'])} left"
    return line


def format_duration(seconds: float) -> str:
    """Format seconds as 45s, 3m 20s or 2h 05m."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {seconds:02d}s" if minutes else f"{seconds}s"


def is_finite(row: Row, name: str) -> bool:
    """Tell whether a row holds a value that can be drawn."""
    return math.isfinite(row.get(name, math.nan))
