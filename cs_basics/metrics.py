"""What a run shows of itself: metrics.jsonl (the truth), console lines, plots, wandb."""

import json
import logging
import math
import operator
import os
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from matplotlib.figure import Figure

from cs_basics.atomic import atomic_writer
from cs_basics.config import TrainConfig

logger = logging.getLogger(__name__)

Row = dict[str, float]


def bits_per_byte(loss: float, bytes_per_token: float) -> float:
    """Turn a loss in nats per token into bits per byte of text, which no vocabulary can flatter."""
    return loss / math.log(2) / bytes_per_token


def read_metrics(path: Path) -> list[Row]:
    """Return the rows of a metrics.jsonl; a last line that was cut off is left out."""
    rows: list[Row] = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:
                logger.warning("%s: skipped a line that is not JSON: %.60s", path, line)
    return rows


class MetricsLog:
    """Append rows to metrics.jsonl, print them, and send them to wandb.

    Args:
        path: The metrics.jsonl.
        config: Names the run for wandb and says whether to use it.
        resume_step: Rows after this step come from updates that were lost; they are dropped.
    """

    def __init__(self, path: Path, config: TrainConfig, resume_step: int | None = None) -> None:
        self.path = path
        self.rows = [row for row in read_metrics(path) if row["step"] <= (resume_step or 0)]
        if resume_step is not None:
            with atomic_writer(path) as file:
                file.writelines(json.dumps(row).encode() + b"\n" for row in self.rows)
        self._file = path.open("a", encoding="utf-8")
        self._wandb = _start_wandb(config, path.parent)

    def log(self, **values: float) -> None:
        """Store and show one row; keys are written with `__` for the slash in `train/loss`."""
        row = {name.replace("__", "/"): value for name, value in values.items()}
        self.rows.append(row)
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()
        logger.info("%s", _console_line(row))
        if self._wandb is not None:
            self._wandb.log(row, step=int(row["step"]))

    def finish(self, plot: Path, samples: list[str]) -> None:
        """Send the plot and the samples to wandb."""
        if self._wandb is not None:
            import wandb

            table = wandb.Table(columns=["story"], data=[[sample] for sample in samples])
            self._wandb.log({"loss": wandb.Image(str(plot)), "samples": table})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()
        if self._wandb is not None:
            self._wandb.finish(exit_code=0 if kind is None else 1)


def _start_wandb(config: TrainConfig, run_dir: Path) -> Any:  # noqa: ANN401 (wandb has no public type)
    """Start a wandb run, or explain why there is none: watching never stops a training."""
    if config.wandb == "disabled":
        return None
    import wandb

    if config.wandb == "online" and not (wandb.api.api_key or os.environ.get("WANDB_API_KEY")):
        logger.warning(
            "wandb: nobody is logged in here (`wandb login`), so the run is kept offline"
        )
        mode = "offline"
    else:
        mode = config.wandb
    try:
        return wandb.init(
            project="cs_basics",
            name=run_dir.name,
            dir=run_dir,
            mode=mode,
            config=config.to_json(),
            settings=wandb.Settings(silent=True, console="off"),
        )
    except Exception as error:
        logger.warning("wandb: not used (%s)", error)
        return None


def _console_line(row: Row) -> str:
    """Write a row for people, the same width each time."""
    parts = [f"step {row['step']:>6,.0f}"]
    if "train/loss" in row:
        parts.append(f"loss {row['train/loss']:.3f}")
    if "val/loss" in row:
        parts.append(f"validation {row['val/loss']:.3f} = {row['val/bits_per_byte']:.3f} bits/byte")
    if "optim/lr" in row:
        parts.append(f"lr {row['optim/lr']:.1e}")
    if "perf/tokens_per_s" in row:
        parts.append(f"{row['perf/tokens_per_s']:>7,.0f} tokens/s")
    if "perf/mfu" in row:
        parts.append(f"{row['perf/mfu']:.0%} of peak")
    if "perf/peak_memory_mb" in row:
        parts.append(f"{row['perf/peak_memory_mb']:,.0f} MB")
    if "perf/seconds_left" in row:
        parts.append(f"{format_duration(row['perf/seconds_left'])} left")
    return " | ".join(parts)


def format_duration(seconds: float) -> str:
    """Write seconds as people say them: 45s, 3m 20s, 2h 05m."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {seconds:02d}s" if minutes else f"{seconds}s"


def plot_losses(rows: list[Row], path: Path, title: str) -> None:
    """Draw training and validation loss against steps and against minutes.

    Args:
        rows: Rows of metrics.jsonl.
        path: The PNG to write.
        title: Stands above both panels.
    """
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for panel, key, label, scale in (
        (panels[0], "step", "step", 1.0),
        (panels[1], "elapsed_s", "minutes", 60.0),
    ):
        for name, style in (
            ("train/loss", {"color": "#9db8d9", "linewidth": 1.2, "label": "training"}),
            (
                "val/loss",
                {"color": "#c44e52", "marker": "o", "markersize": 4, "label": "validation"},
            ),
        ):
            points = [(row[key] / scale, row[name]) for row in rows if name in row]
            if points:
                panel.plot(*zip(*points, strict=True), **style)
        panel.set_xlabel(label)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("loss (nats per token)")
    if validated := [row for row in rows if "val/loss" in row]:
        losses = [row[key] for row in rows for key in ("train/loss", "val/loss") if key in row]
        # From the first validation on: the fall before it would press the rest flat.
        high = max(validated[0]["val/loss"], losses[-1] + 0.5)
        panels[0].set_ylim(min(losses) - 0.1, high + 0.4)
        ratio = validated[-1]["val/bits_per_byte"] / validated[-1]["val/loss"]
        to_bits, to_nats = partial(operator.mul, ratio), partial(operator.mul, 1 / ratio)
        axis = panels[1].secondary_yaxis("right", functions=(to_bits, to_nats))
        axis.set_ylabel("bits per byte (validation)")
    if panels[0].lines:
        panels[0].legend()
    figure.suptitle(title)
    with atomic_writer(path) as file:
        figure.savefig(file, dpi=130, format="png")
