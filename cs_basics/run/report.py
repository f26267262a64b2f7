"""report.html of a run: curves, latest metrics, samples and settings, updated during the run."""

import json
import logging
import time
from datetime import datetime

from cs_basics.run.atomic import write_atomically
from cs_basics.run.config import TrainConfig
from cs_basics.run.curves import Curve, draw_curves
from cs_basics.run.document import (
    Block,
    Details,
    Drawing,
    Heading,
    Items,
    Link,
    Paragraph,
    Table,
    to_html,
)
from cs_basics.run.folder import RunFolder
from cs_basics.run.metrics import MetricsLog, Row, format_duration
from cs_basics.run.samples import NO_STORY

logger = logging.getLogger(__name__)

# During the run, the page is rewritten, and reloads itself in a browser, at most this often.
INTERVAL_S = 10
MAX_SAMPLES = 20

BLUE, RED, GREY = "#4c72b0", "#c44e52", "#555555"


class Report:
    """The sink that keeps the report.html of a run up to date; a failure never stops the run.

    Args:
        folder: Folder of the run, which names the file to write.
        config: Settings of the run, shown on the page.
        log: Metrics and samples of the run, read each time the page is written.
    """

    def __init__(self, folder: RunFolder, config: TrainConfig, log: MetricsLog) -> None:
        self.folder, self.config, self.metrics = folder, config, log
        self._written_at = -float("inf")
        self._has_failed = False

    def log(self, row: Row) -> None:  # noqa: ARG002  the log has it, too
        """Write the page of a running run, unless it was written in the last INTERVAL_S seconds."""
        if time.monotonic() - self._written_at >= INTERVAL_S:
            self.write("running", is_running=True)

    def write(self, state: str, is_running: bool = False) -> None:
        """Write the page.

        Args:
            state: State of the run, such as "running", "finished" or the error that ended it.
            is_running: Whether the page will still change and should reload itself.
        """
        title = f"Run {self.folder.path.name}"
        blocks = report_blocks(state, self.config, self.metrics.rows, self.metrics.samples)
        if not is_running and self.folder.page.exists():
            blocks.insert(
                1, Link("Write with this model, and look inside it", self.folder.page.name)
            )
        page = to_html(title, blocks, refresh_s=INTERVAL_S if is_running else None)
        try:
            write_atomically(self.folder.report, page.encode())
        except (OSError, ValueError) as error:
            if not self._has_failed:
                logger.warning("%s is not written: %s", self.folder.report, error)
            self._has_failed = True
        self._written_at = time.monotonic()


def report_blocks(
    state: str, config: TrainConfig, rows: list[Row], samples: list[tuple[int, str]]
) -> list[Block]:
    """Return the contents of the page.

    Args:
        state: See Report.write.
        config: Settings of the run.
        rows: Rows of metrics.jsonl.
        samples: Texts that the model generated, each with its step.
    """
    now = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    return [
        Paragraph(f"State: {state} (page written {now})"),
        _table(rows),
        Drawing(
            "Loss by step",
            draw_curves(
                [
                    Curve("training", BLUE, _points(rows, "train/loss")),
                    Curve("validation", RED, _points(rows, "val/loss")),
                ],
                "step",
                "loss (nats per token)",
                is_start_cut=True,
            ),
        ),
        *(
            Items(
                [
                    f"step {row['step']:,.0f}: the training loss jumped to {row['train/spike']:.3f}"
                    for row in spikes
                ]
            )
            for spikes in [[row for row in rows if "train/spike" in row]]
            if spikes
        ),
        Drawing(
            "Learning rate by step",
            draw_curves([Curve("", GREY, _points(rows, "optim/lr"))], "step", "learning rate"),
        ),
        Drawing(
            "Speed by step",
            draw_curves([Curve("", GREY, _points(rows, "perf/tokens_per_s"))], "step", "tokens/s"),
        ),
        *_sample_blocks(samples),
        Heading("Settings"),
        Details("config.json", json.dumps(config.to_json(), indent=2)),
    ]


def _table(rows: list[Row]) -> Table:
    """Make a table of the latest value of each metric."""
    latest: Row = {name: value for row in rows for name, value in row.items()}
    judged = "val"
    if "final/loss" in latest:
        judged = "final"
        latest.pop("perf/seconds_left", None)
    named = [
        ("step", "step", "{:,.0f}"),
        ("training loss", "train/loss", "{:.4f}"),
        ("validation loss", f"{judged}/loss", "{:.4f}"),
        ("bits per byte", f"{judged}/bits_per_byte", "{:.4f}"),
        ("tokens/s", "perf/tokens_per_s", "{:,.0f}"),
        ("gradient norm", "optim/grad_norm", "{:.3g}"),
    ]
    cells = [form.format(latest[key]) if key in latest else "-" for _, key, form in named]
    times = [
        format_duration(latest[key]) if key in latest else "-"
        for key in ("elapsed_s", "perf/seconds_left")
    ]
    return Table([*(name for name, _, _ in named), "so far", "left"], [[*cells, *times]])


def _points(rows: list[Row], name: str) -> list[tuple[float, float]]:
    return [(row["step"], row[name]) for row in rows if name in row]


def _sample_blocks(samples: list[tuple[int, str]]) -> list[Block]:
    """Show at most MAX_SAMPLES samples, newest first, evenly spread over the run."""
    if not samples:
        return []
    stride = -(-len(samples) // MAX_SAMPLES)
    blocks: list[Block] = [Heading("What it writes")]
    for step, text in samples[::-1][::stride]:
        blocks.append(Paragraph(f"Step {step:,}: {text or NO_STORY}"))
    return blocks
