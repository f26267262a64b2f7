"""Logs: what a run's losses tell, of this project and of others."""

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path

from cs_basics.run.metrics import Row
from cs_basics.study.doctor import curve
from cs_basics.study.doctor.report import Finding, ranked

NAMES = {
    **dict.fromkeys(("step", "_step", "global_step", "iter"), "step"),
    **dict.fromkeys(("loss", "train_loss", "train_loss_step", "value"), "train/loss"),
    **dict.fromkeys(("val_loss", "eval_loss", "valid_loss"), "val/loss"),
}
"""What logs of other programs call a step and the losses: the last word of a column's name."""


def read_log(path: Path) -> list[Row]:
    """Read the losses of a CSV or JSON Lines file.

    Raises:
        ValueError: It holds no step and loss under a name of NAMES, or is of another form.
    """
    lines, rows = path.read_text(encoding="utf-8", errors="replace").splitlines(), list[Row]()
    is_json = bool(lines) and lines[0].lstrip().startswith("{")
    try:
        for values in map(json.loads, lines) if is_json else csv.DictReader(lines):
            row = Row()
            for column, value in values.items():
                word = re.split(r"[^a-z_]+", str(column).lower().replace("/", "_"))[-1]
                if word in NAMES and value not in (None, ""):
                    row.setdefault(NAMES[word], float(value))
            if "step" in row and len(row) > 1:
                rows.append(row)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}, after {len(rows)} rows: {error}") from error
    if not rows:
        raise ValueError(f"{path} names no step and no loss: call its columns {', '.join(NAMES)}")
    return rows


def points(rows: Sequence[Row]) -> list[list[tuple[int, float]]]:
    """Return steps and losses, of training and of validation."""
    names = "train/loss", "val/loss"
    return [[(int(row["step"]), row[name]) for row in rows if name in row] for name in names]


def of_metrics(
    rows: Sequence[Row], single: float = 0.0, after_one: float = 0.0
) -> tuple[list[Finding], list[str]]:
    """Return what a run's losses tell, and why they cannot be called healthy.

    Args:
        rows: Rows of metrics.jsonl, or of `read_log`.
        single: Entropy of single tokens of the text, in nats; 0: not known.
        after_one: The same of a token after the one before.
    """
    train, valid = points(rows)
    found = ranked(curve.of_curve(train, valid, after_one))
    return found, [] if found else [*curve.unlearnt(train, single)]
