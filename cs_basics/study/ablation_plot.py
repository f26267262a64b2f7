"""The training losses of all runs of an ablation, by update and by minute."""

from collections.abc import Sequence
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cs_basics.study.ablation_run import NUM_WINDOWS, loss_windows
from cs_basics.study.ablation_summary import Run, Summary

_SETTLED = 0.15
"""The share of a run after which its losses decide the limits of the plot: with the fall from the
untrained loss, all later differences would be flat."""
_TOP_OF_EMPTY_PLOT = 10.0
"""Where every run diverged: a little above the loss of guessing among 10,000 tokens."""
_FEW_COLORS = 10
_COLORS_OF_MAP = 20
_LINE_STYLES = ("-", "--", ":")


def plot_runs(summaries: Sequence[Summary]) -> Figure:
    """Draw a line for each run.

    Args:
        summaries: Each variant has a colour; the legend keeps this order.
    """
    height = max(5.0, 0.22 * len(summaries))
    figure = Figure(figsize=(13, height), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    limits = _limits([run for summary in summaries for run in summary.runs])
    for panel, key, label, scale in (
        (panels[0], "step", "step", 1.0),
        (panels[1], "elapsed_s", "minutes", 60.0),
    ):
        panel.set_ylim(limits)
        for index, summary in enumerate(summaries):
            style = _style(index, len(summaries))
            for run in summary.runs:
                _draw_run(panel, run, key, scale, limits[1], style)
            panel.plot([], [], label=summary.variant, **style)
        panel.set_xlabel(label)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel(f"training loss (nats per token, mean of 1/{NUM_WINDOWS} of the run)")
    panels[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small")
    return figure


def _style(index: int, num_variants: int) -> dict[str, Any]:
    """Return colour and dashes of a variant: different ones for up to sixty variants."""
    line_style = _LINE_STYLES[index // _COLORS_OF_MAP % len(_LINE_STYLES)]
    is_few = num_variants <= _FEW_COLORS
    color = f"C{index}" if is_few else colormaps["tab20"](index % _COLORS_OF_MAP)
    return {"color": color, "linestyle": line_style, "linewidth": 1.1}


def _draw_run(
    panel: Axes, run: Run, key: str, scale: float, top: float, style: dict[str, Any]
) -> None:
    points = _curve(run, key, scale)
    if not points:
        return
    panel.plot(*zip(*points, strict=True), **style)
    if run.result is not None and run.result.diverged_at is not None:
        x, y = points[-1]
        # An x at the end of the line, at the top edge if the line has left the plot.
        mark: dict[str, Any] = {"marker": "x", "markersize": 9, "markeredgewidth": 2.5}
        panel.plot([x], [min(y, top)], color=style["color"], clip_on=False, zorder=3, **mark)


def _curve(run: Run, key: str, scale: float) -> list[tuple[float, float]]:
    """Return the points of a run: where each window ends on the x axis, and its mean loss."""
    rows = [row for row in run.rows if "train/loss" in row]
    if not rows:
        return []
    windows = loss_windows([row["train/loss"] for row in rows])
    return [(rows[step - 1][key] / scale, loss) for step, loss in windows]


def _limits(runs: Sequence[Run]) -> tuple[float, float]:
    """Return the limits of the y axis, from the settled losses of runs that did not diverge."""
    settled: list[float] = []
    for run in runs:
        if run.result is not None and run.result.diverged_at is None:
            losses = [loss for _, loss in _curve(run, "step", 1.0)]
            settled += losses[int(_SETTLED * len(losses)) :]
    if not settled:
        return 0.0, _TOP_OF_EMPTY_PLOT
    return min(settled) - 0.1, max(settled) + 0.1
