"""report.html and report.md of a run: latest metrics, samples and facts, updated during the run.

The second is for pasting into an issue or a notebook: it has no curves, and the newest sample only.
"""

import gc
import json
import logging
import os
import platform
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
import torch
from markupsafe import Markup

from cs_basics.run.atomic import write_atomically
from cs_basics.run.clock import Clock
from cs_basics.run.folder import RunFolder
from cs_basics.run.metrics import MetricsLog, Row, Sample, Sink, format_duration, is_finite
from cs_basics.run.pages import render, to_svg
from cs_basics.run.samples import NO_STORY
from cs_basics.run.token_file import entropies, open_token_file
from cs_basics.settings.run import TrainConfig

logger = logging.getLogger(__name__)

TEMPLATES = [Path(__file__).with_name(name) for name in ("report.html", "report.md")]

INTERVAL_S = 30
"""During the run, the page is rewritten, and reloads itself in a browser, at most this often."""
MOST_SHARE = 0.05
"""Of the time of a run, that writing its page may take: it is written less often if need be."""
MAX_SAMPLES = 20
MAX_POINTS = 400
"""Of a curve; more of them are averaged."""
SETTLED = 0.1
"""The share of the steps after which the losses decide the limits of their panel: the steep fall of
the first ones would flatten the rest."""
COUNTED = "counts of tokens alone", "counts of pairs alone"
"""How the entropies of the training text are called, with which a loss is compared."""

BLUE, RED, GREY = "#4c72b0", "#c44e52", "#808080"
PANELS = (
    ("loss (nats per token)", {"train/loss": (BLUE, "training"), "val/loss": (RED, "validation")}),
    ("learning rate", {"optim/lr": (GREY, "")}),
    ("tokens/s", {"perf/tokens_per_s": (GREY, "")}),
)


Find = Callable[[list[Row], tuple[float, float]], Sequence[object]]


class Report(Sink):
    """The sink that keeps a run's report.html and report.md up to date; it never stops the run.

    Args:
        folder: Folder of the run, which names the files to write.
        config: Settings of the run, shown on the page.
        log: Metrics and samples of the run, read each time the page is written.
        find: Returns what is to be said of the metrics and of `entropies`; None: that section is
            left out.
        num_parameters: Of the model.
        clock: The clock of the run, which says how long each stage took.
    """

    def __init__(
        self,
        folder: RunFolder,
        config: TrainConfig,
        log: MetricsLog,
        find: Find | None = None,
        num_parameters: int = 0,
        clock: Clock | None = None,
    ) -> None:
        self.folder, self.config, self.metrics, self.find = folder, config, log, find
        self._counted = counted(folder)
        self._num_parameters, self._clock = num_parameters, clock or Clock(None, None)
        self._due_at = -float("inf")
        self._has_failed = False

    def log(self, row: Row) -> None:  # noqa: ARG002  the log has it, too
        """Write the page of a running run, if it is due."""
        if time.monotonic() >= self._due_at:
            self.write("running", is_running=True)

    def write(self, state: str, is_running: bool = False) -> None:
        """Write both files.

        Args:
            state: State of the run, such as "running", "finished" or the error that ended it.
            is_running: Whether the page will still change and should reload itself.
        """
        began, has_page = time.monotonic(), not is_running and self.folder.page.exists()
        try:
            shown = dict(
                title=f"Run {self.folder.path.name}",
                state=state,
                refresh_s=INTERVAL_S if is_running else None,
                page=self.folder.page.name if has_page else None,
                remarks=self.find and self.find(self.metrics.rows, self._counted),
                config=json.dumps(self.config.to_json(), indent=2),
                about=self.about(),
                **contents(
                    self.metrics.rows, self.metrics.samples, *self._counted, is_running=is_running
                ),
            )
            for template in TEMPLATES:
                path = self.folder.report.with_suffix(template.suffix)
                write_atomically(path, render(template, **shown).encode())
        except Exception as error:
            # Whatever draws or finds may raise; the run is worth more than its page.
            if not self._has_failed:
                logger.warning("%s is not written: %s", self.folder.report, error)
            self._has_failed = True
        # A figure is a circle of references. Left to themselves, those of ten minutes take 40 MB.
        gc.collect()
        now = time.monotonic()
        self._due_at = now + max(INTERVAL_S, (now - began) / MOST_SHARE)

    def about(self) -> dict[str, str]:
        """Return what made the run, how large it is, and how much it has read."""
        kept = json.loads(self.folder.config.read_text()) if self.folder.config.exists() else {}
        step = max((row["step"] for row in self.metrics.rows), default=0)
        seen = step * self.config.data.batch_size * self.config.model.context_length
        tokens = self.folder.tokens / "train.bin"
        passes = seen / len(open_token_file(tokens).tokens) if tokens.exists() else 0.0
        return {
            "commit": (kept.get("provenance", {}).get("git_commit") or "unknown")[:12],
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors, "
            f"{torch.get_num_threads()} threads",
            "versions": f"Python {platform.python_version()}, torch {torch.__version__}",
            "parameters": f"{self._num_parameters:,}",
            "tokens seen": f"{seen:,}, which is {passes:.1f} passes over the text",
            "wall clock": self.wall_clock(),
        }

    def wall_clock(self) -> str:
        """Say how long each stage took that took half a second or more."""
        took = {stage: s for stage, s in self._clock.stages.items() if round(s)}
        text = ", ".join(f"{stage} {format_duration(s)}" for stage, s in took.items())
        text = text or "less than a second in each stage"
        if self._clock.elapsed_before:
            text += "; resumed: preparing again is included, what came after the checkpoint is not"
        return text


def counted(folder: RunFolder) -> tuple[float, float]:
    """Return the `entropies` of a run's training text; zeros if it is not there."""
    tokens = folder.tokens / "train.bin"
    return entropies(open_token_file(tokens).tokens) if tokens.exists() else (0.0, 0.0)


def contents(
    rows: Sequence[Row], samples: Sequence[Sample], *counted: float, is_running: bool = True
) -> dict[str, object]:
    """Return what the page shows of rows of metrics.jsonl, of samples, newest first, and entropies.

    At most MAX_SAMPLES of them are shown, evenly spread over the run.
    """
    return {
        "now": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %Z"),
        "latest": _latest(rows, is_running=is_running),
        "curves": _draw(rows, counted),
        "samples": [
            (step, text or NO_STORY)
            for step, text in samples[::-1][:: -(-len(samples) // MAX_SAMPLES) or 1]
        ],
    }


def _latest(rows: Sequence[Row], *, is_running: bool) -> list[tuple[str, str]]:
    """Name the latest value of each metric."""
    latest = {name: value for row in rows for name, value in row.items()}
    judged = "final" if "final/loss" in latest else "val"
    named = [
        ("step", "step", "{:,.0f}".format),
        ("training loss", "train/loss", "{:.4f}".format),
        ("validation loss", f"{judged}/loss", "{:.4f}".format),
        ("bits per byte", f"{judged}/bits_per_byte", "{:.4f}".format),
        ("tokens/s", "perf/tokens_per_s", "{:,.0f}".format),
        ("gradient norm", "optim/grad_norm", "{:.3g}".format),
        ("so far" if is_running else "took", "elapsed_s", format_duration),
    ]
    if is_running:
        named.append(("left", "perf/seconds_left", format_duration))
    return [(name, shown(latest[key])) for name, key, shown in named if key in latest]


def _draw(rows: Sequence[Row], counted: Sequence[float]) -> Markup:
    """Draw the curves of PANELS; a run that has just begun has empty panels."""
    # Imported here, since only one process draws, and importing it takes long.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 6.2))
    # Fixed margins and places of titles: to look for them takes longer than to draw.
    figure.subplots_adjust(left=0.14, right=0.98, bottom=0.08, top=0.95, hspace=0.3)
    panels = figure.subplots(len(PANELS), 1, sharex=True, height_ratios=(2, 1, 1))
    for panel, (title, curves) in zip(panels, PANELS, strict=True):
        settled: list[float] = []
        for name, (color, label) in curves.items():
            points = _thinned([(row["step"], row[name]) for row in rows if is_finite(row, name)])
            if points:
                marker = "o" if len(points) == 1 else None
                panel.plot(*zip(*points, strict=True), color=color, label=label, marker=marker)
                settled += [y for x, y in points if x >= SETTLED * points[-1][0]]
        if len(curves) > 1 and settled:
            margin = 0.06 * (max(settled) - min(settled)) or 1.0
            panel.set_ylim(min(settled) - margin, max(settled) + margin)
            for level, label in zip(filter(None, counted), COUNTED, strict=False):
                panel.axhline(level, color=GREY, linestyle=":")
                place = panel.get_yaxis_transform()
                above = {"transform": place, "ha": "right", "va": "bottom", "clip_on": True}
                panel.text(0.98, level, label, **above)
            panel.legend(frameon=False)
        panel.set_title(title, loc="left", y=1.0, fontsize="medium")
        panel.grid(alpha=0.3)
    panels[-1].set_xlabel("step")
    return to_svg(figure)


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Average neighbours until MAX_POINTS are left; each group keeps the x of its last point."""
    groups = np.array_split(np.array(points), min(len(points), MAX_POINTS) or 1)
    return [(group[-1, 0], group[:, 1].mean()) for group in groups if len(group)]
