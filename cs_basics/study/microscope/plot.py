"""The readings of a microscope as one picture: each statistic by depth, a line for each step."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from cs_basics.run.pages import to_png
from cs_basics.study.microscope.reading import Reading

PANELS: tuple[tuple[str, str, Callable[[Reading], list[float]]], ...] = (
    ("RMS of what the norm reads", "log", lambda reading: reading.rms),
    ("its largest absolute value", "log", lambda reading: reading.largest),
    ("share of the mean in its length", "linear", lambda reading: reading.mean_share),
    ("its mean", "linear", lambda reading: reading.mean),
    ("RMS of a sixteenth / of all: mean", "linear", lambda reading: reading.partial_ratio),
    ("RMS of a sixteenth / of all: spread", "linear", lambda reading: reading.partial_spread),
    ("attention scores: RMS", "linear", lambda reading: reading.score_rms),
    ("attention scores: largest", "log", lambda reading: reading.score_largest),
)


def plot_readings(readings: Sequence[Reading], title: str) -> bytes:
    """Draw all statistics over the depth of the model; return a PNG.

    Args:
        readings: By step, at least one; all of the same model.
        title: What stands above.
    """
    steps = [reading.step for reading in readings]
    colors = ScalarMappable(Normalize(min(steps), max(max(steps), min(steps) + 1)), "viridis")
    plain = StrMethodFormatter("{x:g}")
    figure = Figure(figsize=(14, 7), layout="constrained")
    panels = figure.subplots(2, 4).T.flatten()
    for panel, (name, scale, values_of) in zip(panels, PANELS, strict=True):
        for reading in readings:
            _draw(panel, reading, values_of(reading), colors.to_rgba(np.array([reading.step]))[0])
        panel.set_yscale(scale)
        if scale == "log":
            panel.yaxis.set_major_formatter(plain)
            panel.yaxis.set_minor_formatter(plain)
        panel.set_title(name, fontsize=10)
        panel.grid(alpha=0.3)
        if name.startswith("share"):
            panel.axhline(readings[0].chance_share, color="0.5", linestyle=":", linewidth=1)
            panel.set_ylim(bottom=0)
    bar = figure.colorbar(colors, ax=list(panels), label="updates", pad=0.01)
    bar.set_ticks(steps if len(steps) <= 8 else [steps[0], steps[-1]])
    figure.suptitle(f"{title}: what every norm reads, and the attention scores")
    return to_png(figure)


def _draw(panel: Axes, reading: Reading, values: list[float], color: object) -> None:
    """Draw a line over the norms, or over the blocks if there is one value for each block."""
    per_norm = len(values) == len(reading.norms)
    names = reading.norms if per_norm else [str(number + 1) for number in range(len(values))]
    panel.plot(range(len(values)), values, color=color, marker=".", linewidth=1.1)  # pyright: ignore[reportArgumentType]
    panel.set_xticks(range(len(values)), names, rotation=60, fontsize=7)
    panel.set_xlabel("norm" if per_norm else "block", fontsize=8)
