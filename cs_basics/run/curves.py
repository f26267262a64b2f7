"""Line charts as SVG, without a plotting library: drawing one takes milliseconds."""

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Point = tuple[float, float]

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 26, 44
MAX_POINTS = 400
# With is_start_cut, points in this first share of the x axis do not affect the range of the y axis:
# the steep fall of the first losses would flatten the rest of the curve.
UNSETTLED = 0.1


@dataclass(frozen=True)
class Curve:
    """One line of a chart."""

    label: str
    color: str
    points: Sequence[Point]
    """(x, y) in order of x; points whose y is not finite are left out."""


def draw_curves(
    curves: Iterable[Curve], x_label: str, y_label: str, is_start_cut: bool = False
) -> str:
    """Draw curves into one chart.

    Args:
        curves: Curves that share both axes; without any points only the axes are drawn.
        x_label: Text below the x axis.
        y_label: Text above the y axis.
        is_start_cut: Whether the curves may start outside the chart, so that high first values do
            not flatten the rest.

    Returns:
        An <svg> element.
    """
    thinned = [Curve(curve.label, curve.color, _thinned(curve.points)) for curve in curves]
    points = [point for curve in thinned for point in curve.points]
    x_low, x_high = _limits([x for x, _ in points])
    first = x_low + UNSETTLED * (x_high - x_low) if is_start_cut else x_low
    settled = [y for x, y in points if x >= first]
    y_low, y_high = _limits(settled or [y for _, y in points])
    margin = 0.06 * (y_high - y_low)
    y_low, y_high = y_low - margin, y_high + margin

    def place(point: Point) -> Point:
        x = LEFT + (point[0] - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)
        y = HEIGHT - BOTTOM - (point[1] - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM)
        return x, y

    parts = [_grid_line(place((x_low, y)), y, is_level=True) for y in _ticks(y_low, y_high)]
    parts += [_grid_line(place((x, y_low)), x, is_level=False) for x in _ticks(x_low, x_high)]
    parts += [_line(curve, [place(point) for point in curve.points]) for curve in thinned]
    parts += [_text(WIDTH / 2, HEIGHT - 6, x_label, "middle"), _text(LEFT, 14, y_label)]
    for index, curve in enumerate(thinned):
        parts.append(
            _text(WIDTH - RIGHT - 4, TOP + 14 + 16 * index, curve.label, "end", curve.color)
        )
    inside = f'x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}"'
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-size="12" fill="currentColor">'
        f'<clipPath id="inside"><rect {inside}/></clipPath>{"".join(parts)}</svg>'
    )


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Reduce to MAX_POINTS by averaging neighbours; a group keeps the x of its last point."""
    finite = [point for point in points if math.isfinite(point[1])]
    size = math.ceil(len(finite) / MAX_POINTS)
    groups = (finite[begin : begin + size] for begin in range(0, len(finite), size or 1))
    return [(group[-1][0], sum(y for _, y in group) / len(group)) for group in groups]


def _limits(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values, default=0.0), max(values, default=1.0)
    return (low, high) if high > low else (low, low + (abs(low) or 1.0))


def _ticks(low: float, high: float) -> list[float]:
    """Return three to eight round numbers in a range, the labels of an axis."""
    rough = (high - low) / 5
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(s * magnitude for s in (1, 2, 5, 10) if s * magnitude >= rough)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _grid_line(start: Point, value: float, is_level: bool) -> str:
    x, y = start
    end = f'x2="{WIDTH - RIGHT}" y2="{y:.1f}"' if is_level else f'x2="{x:.1f}" y2="{TOP}"'
    label = f"{value:.6g}" if abs(value) < 1e4 else f"{value:,.0f}"
    text = _text(x - 6, y + 4, label, "end") if is_level else _text(x, y + 16, label, "middle")
    return f'<line x1="{x:.1f}" y1="{y:.1f}" {end} stroke="#ddd"/>{text}'


def _line(curve: Curve, places: Sequence[Point]) -> str:
    color = html.escape(curve.color)
    if len(places) == 1:
        x, y = places[0]
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>'
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return (
        f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5" '
        'clip-path="url(#inside)"/>'
    )


def _text(x: float, y: float, text: str, anchor: str = "start", color: str = "") -> str:
    fill = f' fill="{html.escape(color)}"' if color else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{fill}>{html.escape(text)}</text>'
