"""The picture of the tokenizer benchmark: speeds of all contenders, a bar each."""

import re
from pathlib import Path

from matplotlib.figure import Figure

from cs_basics.run.atomic import atomic_writer

from .measuring import Row

COLORS = {
    "ours": "#c44e52",
    "tokenizers": "#4c72b0",
    "tiktoken": "#55a868",
    "clear": "#bbbbbb",
}
_NAME = re.compile(r"(?P<task>.*) \(peer: (?P<peer>\w+)\)")


def draw(rows: list[Row], path: Path) -> None:
    """Draw the speeds in MB/s, a group of bars for each task.

    Args:
        rows: What was measured; rows of another unit are left out.
        path: The PNG to write.
    """
    speeds: dict[str, dict[str, float]] = {}
    for row in rows:
        named = _NAME.fullmatch(row.name)
        if named and row.unit == "MB/s" and row.peer is not None:
            bars = speeds.setdefault(named["task"], {"ours": row.ours})
            bars[named["peer"]] = row.peer
    figure = Figure(figsize=(10, 1.5 + 0.8 * len(speeds)), layout="constrained")
    panel = figure.subplots()
    for place, bars in enumerate(speeds.values()):
        for index, (name, speed) in enumerate(bars.items()):
            y = place + 0.2 * (index - (len(bars) - 1) / 2)
            panel.barh(y, speed, 0.19, color=COLORS[name], label=name if place == 0 else None)
            panel.text(speed, y, f" {speed:.3g}", va="center", fontsize=7)
    handles = [panel.barh(0, 0, color=color) for color in COLORS.values()]
    panel.legend(handles, list(COLORS), loc="lower right", frameon=False)
    panel.set_yticks(range(len(speeds)), list(speeds))
    panel.invert_yaxis()
    panel.set_xscale("log")
    panel.set_xlabel("MB/s (logarithmic)")
    panel.grid(axis="x", alpha=0.3)
    with atomic_writer(path) as file:
        figure.savefig(file, dpi=130, format="png")
