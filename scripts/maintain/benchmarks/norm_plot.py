"""The picture of the norms benchmark: share of the copy bandwidth against bytes moved."""

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cs_basics.run.atomic import atomic_writer

from . import norm_contenders as names
from .norm_points import BOTH, FORWARD, NORM, Point

STYLES: dict[str, dict[str, Any]] = {
    names.OURS_COMPILED: {"color": "#c44e52", "marker": "o", "linewidth": 2.2},
    names.OURS: {"color": "#c44e52", "marker": "o", "linestyle": ":"},
    names.FUNCTION_COMPILED: {"color": "#dd8452", "marker": "s", "linewidth": 2.2},
    names.OURS_FUNCTION: {"color": "#dd8452", "marker": "s", "linestyle": ":"},
    names.TORCH_COMPILED: {"color": "#4c72b0", "marker": "^", "linewidth": 2.2},
    names.TORCH: {"color": "#4c72b0", "marker": "^", "linestyle": ":"},
    names.LLAMA: {"color": "#8172b3", "marker": "x", "linestyle": ":"},
    names.LAYERNORM_COMPILED: {"color": "#55a868", "marker": "D", "linewidth": 2.2},
    names.LAYERNORM: {"color": "#55a868", "marker": "D", "linestyle": ":"},
    names.TORCH_LAYERNORM: {"color": "#7f7f7f", "marker": "v", "linestyle": ":"},
}
"""Compiled: solid; operation by operation, or a kernel of torch: dotted; one color a family."""


def draw(points: list[Point], path: Path) -> None:
    """Draw forward, and forward + backward, side by side; a row of panels for each dtype.

    Args:
        points: What was measured; of the norms alone, not of add + norm.
        path: The PNG to write.
    """
    chosen = [point for point in points if point.operation == NORM]
    dtypes = list(dict.fromkeys(point.dtype for point in chosen))
    figure = Figure(figsize=(13, 1 + 4 * len(dtypes)), layout="constrained")
    panels = figure.subplots(len(dtypes), 2, sharex="col", sharey=True, squeeze=False)
    for dtype, row in zip(dtypes, panels, strict=True):
        for direction, panel in zip((FORWARD, BOTH), row, strict=True):
            here = [p for p in chosen if (p.dtype, p.direction) == (dtype, direction)]
            _draw_panel(panel, here)
            panel.set_title(f"{direction}, {dtype}")
        row[0].set_ylabel("share of the copy bandwidth")
    for panel in panels[-1]:
        panel.set_xlabel("bytes that have to be moved")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False)
    with atomic_writer(path) as file:
        figure.savefig(file, dpi=130, format="png")


def _draw_panel(panel: Axes, points: list[Point]) -> None:
    for name, style in STYLES.items():
        mine = sorted((p.bytes_moved, p.share) for p in points if p.contender == name)
        if mine:
            panel.plot(*zip(*mine, strict=True), label=name, markersize=4, **style)
    if in_cache := [p.bytes_moved for p in points if p.fits_cache]:
        panel.axvspan(min(in_cache) / 2, max(in_cache), color="black", alpha=0.06, linewidth=0)
        panel.text(min(in_cache), 1.02, " fits the cache: memory is not the limit", fontsize=8)
    panel.axhline(1, color="black", linewidth=0.8)
    panel.set_xscale("log")
    panel.set_ylim(0, 1.3)
    panel.grid(alpha=0.3)
