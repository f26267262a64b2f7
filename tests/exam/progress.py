"""Progress over time: how many problems are solved, how many points there are, and were before."""

import datetime
import json
from collections.abc import Sequence
from pathlib import Path

import report


def line(rows: Sequence[report.Row], path: Path) -> str:
    """Keep what the rows say in a file; return such as "8 of 20 problems, 41.5 points; ...".

    A problem of which fewer items were asked than before keeps what it had.
    """
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    problems, days = kept.get("problems", {}), kept.get("days", {})
    earned = report.points_of(rows)
    for problem, counter in report.count(rows).items():
        if counter.total() >= problems.get(problem, [0])[0]:
            problems[problem] = [counter.total(), earned[problem]]
    points = sum(earned for _, earned in problems.values())
    today = datetime.datetime.now().astimezone().date()
    before = max((day for day in days if day < today.isoformat()), default="")
    days[today.isoformat()] = points
    report.write_file(json.dumps({"problems": problems, "days": days}) + "\n", path)
    solved = sum(
        earned >= report.RUBRIC[problem]["points"] - 1e-9
        for problem, (_, earned) in problems.items()
    )
    so_far = f"{solved} of {len(report.RUBRIC)} problems, {report.shown(points)} points"
    if not before:
        return so_far
    is_yesterday = before == (today - datetime.timedelta(days=1)).isoformat()
    return f"{so_far}; {'yesterday' if is_yesterday else before} {report.shown(days[before])}"
