"""Normalisation layers: time, against what moving their bytes costs on this machine.

A norm computes next to nothing for each number that it reads, so memory is its limit, and the
limit is measured: each figure is a share of the speed at which a tensor of the same size is copied,
in the same turns. docs/norms.md says what came out; lab.claims counts operations.
"""

import itertools
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cs_basics.fast.compilation import reason_not_to_compile
from cs_basics.run.atomic import atomic_writer
from cs_basics.run.hardware import resolve_device

from . import norm_contenders as names
from .measuring import Report, Row, compare
from .norm_contenders import add_norm_contenders, llama_rms_norm, norm_contenders
from .norm_document import write_tables
from .norm_points import ADD_NORM, BOTH, FORWARD, NORM, Point, measure_sizes, table

DTYPES = (torch.float32, torch.bfloat16)
WIDTHS = (256, 512, 2048, 4096, 8192)
NUM_ROWS = (4096, 1, 16, 256, 16384)
"""The first is measured at every width, the others at one width: a cross through the grid."""
WIDTH_OF_ALL_ROWS = 2048
GOAL_WIDTHS = (512, 2048, 4096)
"""The widths of the goals. Compiling takes longer than measuring what was compiled, so for the
second dtype only these widths are compiled, and one number of rows is measured."""

COMPARISONS = (
    (NORM, BOTH, names.OURS_COMPILED, names.TORCH_COMPILED, 1.05),
    (NORM, BOTH, names.OURS_COMPILED, names.TORCH, 0.7),
    (NORM, BOTH, names.FUSED, names.OURS, None),
    (NORM, FORWARD, names.OURS, names.LAYERNORM, None),
    (NORM, BOTH, names.OURS, names.LAYERNORM, None),
    (NORM, FORWARD, names.OURS_COMPILED, names.LAYERNORM_COMPILED, None),
    (NORM, BOTH, names.OURS_COMPILED, names.LAYERNORM_COMPILED, None),
    (NORM, BOTH, names.TORCH, names.TORCH_LAYERNORM, None),
    (ADD_NORM, FORWARD, names.ADD_NORM_COMPILED, names.ADD_THEN_NORM_COMPILED, 0.85),
    (ADD_NORM, BOTH, names.ADD_NORM_COMPILED, names.ADD_THEN_NORM_COMPILED, 0.85),
    (ADD_NORM, BOTH, names.ADD_NORM_FUSED_COMPILED, names.ADD_THEN_NORM_COMPILED, 0.85),
)
"""Operation, direction, ours, peer, and the largest ours / peer that meets the goal."""


STYLES: dict[str, dict[str, Any]] = {
    names.OURS_COMPILED: {"color": "#c44e52", "marker": "o", "linewidth": 2.2},
    names.OURS: {"color": "#c44e52", "marker": "o", "linestyle": ":"},
    names.FUSED: {"color": "#dd8452", "marker": "s", "linestyle": ":"},
    names.TORCH_COMPILED: {"color": "#4c72b0", "marker": "^", "linewidth": 2.2},
    names.TORCH: {"color": "#4c72b0", "marker": "^", "linestyle": ":"},
    names.LLAMA: {"color": "#8172b3", "marker": "x", "linestyle": ":"},
    names.LLAMA_PEER: {"color": "#937860", "marker": "+", "linestyle": ":"},
    names.LAYERNORM_COMPILED: {"color": "#55a868", "marker": "D", "linewidth": 2.2},
    names.LAYERNORM: {"color": "#55a868", "marker": "D", "linestyle": ":"},
    names.TORCH_LAYERNORM: {"color": "#7f7f7f", "marker": "v", "linestyle": ":"},
}
"""Lines of the picture; compiled: solid; operation by operation, or a kernel of torch: dotted."""


def measure() -> Report:
    """Measure every size."""
    device = resolve_device("auto")
    if device.type == "mps":
        device = torch.device("cpu")
    points: list[Point] = []
    can_compile = _say_what_is_missing(device)
    for dtype, d_model in itertools.product(DTYPES, WIDTHS):
        is_first, is_goal = dtype == DTYPES[0], d_model in GOAL_WIDTHS
        compiles = can_compile and (is_first or is_goal)
        num_rows = NUM_ROWS if is_first and d_model == WIDTH_OF_ALL_ROWS else NUM_ROWS[:1]
        contenders = norm_contenders(d_model, dtype, device, compiles)
        points += measure_sizes(NORM, contenders, num_rows, d_model, dtype, device)
        if is_goal:
            contenders = add_norm_contenders(d_model, dtype, device, compiles)
            points += measure_sizes(ADD_NORM, contenders, NUM_ROWS[:1], d_model, dtype, device)
    rows = goals(points, device)
    return Report(
        rows,
        text=table(points),
        details={"points": [point.to_json() for point in points]},
        draw=partial(draw, points),
        write=partial(write_tables, points),
    )


def _say_what_is_missing(device: torch.device) -> bool:
    """Return whether torch.compile works; what is left out is named on stderr."""
    if (reason := reason_not_to_compile(device)) is not None:
        print(f"torch.compile does not work here, so it is left out: {reason}", file=sys.stderr)
    if llama_rms_norm() is None:
        print("LlamaRMSNorm is left out: pip install transformers", file=sys.stderr)
    return reason is None


def goals(points: list[Point], device: torch.device) -> list[Row]:
    """Return what is promised of these layers (on a CPU), and RMSNorm beside LayerNorm."""
    rows: list[Row] = []
    found = {(*p.size, p.operation, p.direction, p.contender): p for p in points}
    for dtype, d_model in itertools.product(DTYPES, GOAL_WIDTHS):
        size = (str(dtype)[6:], NUM_ROWS[0], d_model)
        for operation, direction, ours, peer, bound in COMPARISONS:
            one = found.get((*size, operation, direction, ours))
            other = found.get((*size, operation, direction, peer))
            if one is not None and other is not None:
                name = f"{one.place}: {ours} (peer: {peer})"
                at_most = bound if device.type == "cpu" else None
                times_ms = one.elapsed_s * 1000, other.elapsed_s * 1000
                rows.append(compare(name, *times_ms, "ms", at_most=at_most))
        point = found.get((*size, NORM, FORWARD, names.OURS_COMPILED))
        if point is not None:
            name = f"{point.place}: {point.contender} (peer: copy)"
            at_least = 0.6 if device.type == "cpu" else None
            rows.append(compare(name, point.rate, point.copy_rate, "GB/s", at_least=at_least))
    return rows


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
