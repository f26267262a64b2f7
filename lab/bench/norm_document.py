"""The tables of docs/norms.md that the norms benchmark writes there itself."""

from collections.abc import Sequence
from pathlib import Path

from . import norm_contenders as names
from .measuring import write_measured
from .norm_points import ADD_NORM, BOTH, FORWARD, NORM, Point

NUM_ROWS, WIDTHS, DTYPES = 4096, (512, 2048, 4096), ("float32", "bfloat16")
CONTENDERS = (
    names.OURS, names.FUSED, names.TORCH, names.LLAMA_PEER, names.LAYERNORM, names.TORCH_LAYERNORM,
    names.OURS_COMPILED, names.TORCH_COMPILED, names.LAYERNORM_COMPILED,
)  # fmt: skip
RATIOS = (
    ("RMSNorm / torch.nn.RMSNorm", NORM, BOTH, names.OURS_COMPILED, names.TORCH_COMPILED),
    ("RMSNorm / LayerNorm", NORM, BOTH, names.OURS_COMPILED, names.LAYERNORM_COMPILED),
    ("add + norm together / apart, forward", ADD_NORM, FORWARD, names.ADD_NORM_COMPILED,
     names.ADD_THEN_NORM_COMPILED),
    ("add + norm together / apart", ADD_NORM, BOTH, names.ADD_NORM_COMPILED,
     names.ADD_THEN_NORM_COMPILED),
    ("the same, FusedRMSNorm together", ADD_NORM, BOTH, names.ADD_NORM_FUSED_COMPILED,
     names.ADD_THEN_NORM_COMPILED),
)  # fmt: skip
"""What is compared, compiled; forward + backward where the name does not say forward."""


def write_tables(points: Sequence[Point], document: Path) -> None:
    """Put the tables between the two marks of a document.

    Raises:
        ValueError: A mark does not occur exactly once.
    """
    write_measured(document, "measured", [times(points), ratios(points)])


def times(points: Sequence[Point]) -> str:
    """The table of milliseconds, in float32."""
    found = {(p.size, p.operation, p.direction, p.contender): p for p in points}
    columns = [(direction, width) for direction in (FORWARD, BOTH) for width in WIDTHS]
    heads = [f"{direction}, d = {width:,}" for direction, width in columns]
    lines = [
        f"| {NUM_ROWS:,} rows, float32, ms (share of the copy bandwidth) | {' | '.join(heads)} |",
        f"|---{'|---' * len(columns)}|",
    ]
    for name in CONTENDERS:
        cells: list[str] = []
        for direction, width in columns:
            point = found.get((("float32", NUM_ROWS, width), NORM, direction, name))
            cells.append(f"{1e3 * point.elapsed_s:.3g} ({point.share:.0%})" if point else "-")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def ratios(points: Sequence[Point]) -> str:
    """The table of compiled forms relative to each other, in both dtypes."""
    found = {(p.size, p.operation, p.direction, p.contender): p.elapsed_s for p in points}
    columns = [(dtype, width) for dtype in DTYPES for width in WIDTHS]
    heads = [f"{dtype}, d = {width:,}" for dtype, width in columns]
    lines = [f"| compiled, time / time | {' | '.join(heads)} |", f"|---{'|---' * len(columns)}|"]
    for name, operation, direction, one, other in RATIOS:
        cells: list[str] = []
        for dtype, width in columns:
            size = (dtype, NUM_ROWS, width)
            pair = [found.get((size, operation, direction, form)) for form in (one, other)]
            cells.append(f"{pair[0] / pair[1]:.2f}" if pair[0] and pair[1] else "-")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)
