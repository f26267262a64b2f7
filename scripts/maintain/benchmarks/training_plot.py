"""The picture of the training benchmark: speed and memory of the contenders, and of our steps."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cs_basics.run.atomic import atomic_writer

OURS, PEER = "#c44e52", "#4c72b0"


class Measured(Protocol):
    """What is drawn of a contender."""

    @property
    def tokens_per_s(self) -> float:
        """Speed."""
        ...

    @property
    def peak_mb(self) -> float:
        """Memory."""
        ...


def draw(
    main: Mapping[str, Measured],
    steps: Mapping[str, Measured],
    growth: Mapping[str, Mapping[str, Measured]],
    path: Path,
) -> None:
    """Draw speed and memory of the contenders, of our steps, and the lead at other sizes.

    Args:
        main: The contenders.
        steps: Ours, each with one more step than the one before.
        growth: Ours and the peer at other sizes.
        path: The PNG to write.
    """
    figure = Figure(figsize=(13, 9), layout="constrained")
    panels = figure.subplots(3, 2)
    for (left, right), results, title in (
        (panels[0], main, "contenders"),
        (panels[1], steps, "what each step gained"),
    ):
        _bars(left, {name: result.tokens_per_s for name, result in results.items()})
        _bars(right, {name: result.peak_mb for name, result in results.items()})
        left.set_title(f"{title}: tokens/s")
        right.set_title(f"{title}: peak memory, MB")
        right.set_yticklabels([])
    both = {
        f"{name}: {who}": result
        for name, results in growth.items()
        for who, result in results.items()
    }
    _bars(panels[2][0], {name: result.tokens_per_s for name, result in both.items()})
    _bars(panels[2][1], {name: result.peak_mb for name, result in both.items()})
    panels[2][0].set_title("other sizes: tokens/s")
    panels[2][1].set_title("other sizes: peak memory, MB")
    panels[2][1].set_yticklabels([])
    with atomic_writer(path) as file:
        figure.savefig(file, dpi=110, format="png")


def _bars(panel: Axes, values: Mapping[str, float]) -> None:
    names = list(values)
    is_peer = [("transformers" in n or "built-in" in n or n.endswith("peer")) for n in names]
    colors = [PEER if peer else OURS for peer in is_peer]
    bars = panel.barh(names, list(values.values()), color=colors)
    panel.bar_label(bars, fmt="{:,.0f}", fontsize=8, padding=2)
    panel.invert_yaxis()
    panel.tick_params(labelsize=8)
    panel.margins(x=0.15)
