"""adjust.csv: points that an instructor gives or takes, and the reason, which students see."""

import csv
import difflib
import math
from collections.abc import Iterable
from pathlib import Path

from cs_grader.plain_text import one_line
from cs_grader.result import Adjustment

ADJUSTED = "adjust.csv"
COLUMNS = ["name", "points", "reason"]


def adjustments_in(folder: Path, names: Iterable[str]) -> dict[str, tuple[Adjustment, ...]]:
    """Read ADJUSTED, if a folder of submissions has it: points to add or take, by name.

    Raises:
        ValueError: It has other columns, a name that nobody has, or points that are no number.
    """
    found: dict[str, tuple[Adjustment, ...]] = dict.fromkeys(names, ())
    path = folder / ADJUSTED
    if not path.is_file():
        return found
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            head, *rows = csv.reader(file, strict=True)
    except (UnicodeDecodeError, csv.Error, ValueError) as error:
        raise ValueError(f"{path} is no table of {', '.join(COLUMNS)}: {error}") from None
    if head != COLUMNS:
        raise ValueError(f"{path} begins with {','.join(head)}: write {','.join(COLUMNS)}")
    for number, row in enumerate(rows, 2):
        if len(row) != len(COLUMNS):
            raise ValueError(f"{path}, line {number}: {len(row)} columns, expected {len(COLUMNS)}")
        name, points, reason = row
        if name not in found:
            near = difflib.get_close_matches(name, found, 1)
            hint = f": do you mean {near[0]}?" if near else ": use a name of the gradebook"
            raise ValueError(f"{path}, line {number}: nobody is called {one_line(name)!r}{hint}")
        try:
            amount = float(points)
        except ValueError:
            amount = math.nan
        if not math.isfinite(amount):
            raise ValueError(f"{path}, line {number}: points = {points!r}: use a number such as -5")
        found[name] += (Adjustment(points=amount, reason=one_line(reason)),)
    return found
