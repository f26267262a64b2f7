"""The picture of the loss benchmark: training loss against time, and where validation ended."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from matplotlib.figure import Figure

from cs_basics.run.atomic import atomic_writer

COLOURS = {"ours": "#c44e52", "transformers": "#4c72b0"}


class Trained(Protocol):
    """What is drawn of a run."""

    rows: list[dict[str, float]]
    bits_per_byte: float

    @property
    def attempt(self) -> Any:  # noqa: ANN401 (kind, lr and minutes of it)
        """What was tried."""
        ...


def draw(races: Sequence[Sequence[Trained]], path: Path) -> None:
    """Draw a panel for each race.

    Args:
        races: The runs of each time that was asked for.
        path: The PNG to write.
    """
    figure = Figure(figsize=(6.5 * len(races), 4.5), layout="constrained")
    panels = figure.subplots(1, len(races), squeeze=False)[0]
    for panel, runs in zip(panels, races, strict=True):
        for run in runs:
            label = (
                f"{run.attempt.kind}, rate {run.attempt.lr:g}: validation "
                f"{run.bits_per_byte:.4f} bits per byte"
            )
            minutes = [row["elapsed_s"] / 60 for row in run.rows]
            colour = COLOURS[run.attempt.kind]
            losses = [row["loss"] for row in run.rows]
            panel.plot(minutes, losses, label=label, color=colour)
        panel.set_title(f"{runs[0].attempt.minutes:g} minutes each")
        panel.set_xlabel("minutes of training")
        panel.set_ylabel("training loss (nats per token)")
        panel.legend()
        panel.grid(alpha=0.3)
    with atomic_writer(path) as file:
        figure.savefig(file, dpi=130, format="png")
