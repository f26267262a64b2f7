"""The training losses of all runs of an ablation, by update and by minute."""

from collections.abc import Sequence
from typing import Any

from matplotlib import colormaps
from matplotlib.figure import Figure

from cs_basics.study.ablation_run import NUM_WINDOWS, loss_windows
from cs_basics.study.ablation_summary import Run, Summary

_SETTLED = 0.15
"""The share of a run after which its losses decide the limits of the plot: with the fall from the
untrained loss, all later differences would be flat."""
_TOP_OF_EMPTY_PLOT = 10.0
"""Where every run diverged: a little above the loss of guessing among 10,000 tokens."""
_FEW_COLORS = 10
_LINE_STYLES = ("-", "--", ":")


def plot_runs(summaries: Sequence[Summary]) -> Figure:
    """Draw a line for each run.

    Args:
        summaries: Each variant has a colour; the legend keeps this order.
    """
    figure = Figure(figsize=(13, max(5.0, 0.22 * len(summaries))), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    bottom, top = _limits([run for summary in summaries for run in summary.runs])
    for panel, (label, key, scale) in zip(
        panels, (("step", "step", 1.0), ("minutes", "elapsed_s", 60.0)), strict=True
    ):
        for index, summary in enumerate(summaries):
            style = _style(index, len(summaries))
            for run in summary.runs:
                points = _curve(run, key, scale)
                panel.plot(*zip(*points, strict=True), **style)
                if points and run.result is not None and run.result.diverged_at is not None:
                    x, y = points[-1]
                    # At the end of the line, at the top edge if the line has left the plot.
                    mark = {"marker": "x", "markersize": 9, "markeredgewidth": 2.5, "zorder": 3}
                    panel.plot(x, min(y, top), color=style["color"], clip_on=False, **mark)
            panel.plot([], [], label=summary.variant, **style)
        panel.set_xlabel(label)
        panel.grid(alpha=0.3)
    panels[0].set_ylim(bottom, top)
    panels[0].set_ylabel(f"training loss (nats per token, mean of 1/{NUM_WINDOWS} of the run)")
    panels[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small")
    return figure


def _style(index: int, num_variants: int) -> dict[str, Any]:
    """Return colour and dashes of a variant: different ones for up to sixty variants."""
    colors = colormaps["tab10" if num_variants <= _FEW_COLORS else "tab20"]
    line_style = _LINE_STYLES[index // colors.N % len(_LINE_STYLES)]
    return {"color": colors(index % colors.N), "linestyle": line_style, "linewidth": 1.1}


def _curve(run: Run, key: str, scale: float) -> list[tuple[float, float]]:
    """Return the points of a run: where each window ends on the x axis, and its mean loss."""
    rows = [row for row in run.rows if "train/loss" in row]
    windows = loss_windows([row["train/loss"] for row in rows]) if rows else []
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
