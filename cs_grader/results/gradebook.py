"""gradebook.csv: a row for each submission, a column for each problem."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from cs_grader.plain_text import one_line
from cs_grader.result import Problem, Result
from cs_grader.results import reading

HEAD = ("score", "max_score", "isolation", "note")
PEOPLE = ("names", "addresses")
ADJUSTED = ("adjustment", "reason")
NOTE_CHARS = 500
FORMULA = ("=", "+", "-", "@", "|", "%", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What spreadsheets take for the beginning of a formula, in full width too."""


def gradebook_csv(
    results: Iterable[Result],
    faults: Mapping[str, str] | None = None,
    people: Mapping[str, tuple[str, str]] | None = None,
) -> str:
    """Return the table, sorted by submission, so that it does not depend on who was first.

    Args:
        results: What came of each submission.
        faults: Why a submission has no result, by its name: rows without a score.
        people: Names and addresses of those who handed it in: two more columns, if there are any.
    """
    results = sorted(results, key=lambda result: (result.submission, result.key))
    columns = list(problems_of(results))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")

    def who(submission: str) -> list[str]:
        known = (people or {}).get(submission, ("", ""))
        return [_cell(submission), *map(_cell, known if people else ())]

    names = PEOPLE if people else ()
    adjusted = ADJUSTED if any(result.adjustments for result in results) else ()
    writer.writerow(["submission", *names, *HEAD, *adjusted, *map(_cell, columns)])
    for name, fault in sorted((faults or {}).items()):
        empty = [""] * (len(adjusted) + len(columns))
        writer.writerow([*who(name), "", "", "", _cell(f"NOT GRADED: {fault}"), *empty])
    for result in results:
        earned = {problem.problem: number(problem.points) for problem in result.problems}
        writer.writerow(
            [
                *who(result.submission),
                number(result.total),
                number(result.max_score),
                _cell(result.isolation),
                _cell(reading.remark(result)),
                *(_adjustments(result) if adjusted else ()),
                *(earned.get(column, "") for column in columns),
            ]
        )
    return f"\ufeff{text.getvalue()}"  # Excel takes it for UTF-8 only so.


def _adjustments(result: Result) -> tuple[str, str]:
    """By how much the score is not the sum of the problems, and why."""
    if not result.adjustments:
        return "", ""
    reasons = "; ".join(one.reason for one in result.adjustments)
    return number(result.total - result.score), _cell(reasons)


def problems_of(results: Sequence[Result]) -> dict[str, Problem]:
    """Every problem that any of the results has, in the order of whoever has most of them."""
    longest_first = sorted(results, key=lambda result: -len(result.problems))
    found: dict[str, Problem] = {}
    for result in longest_first:
        for problem in result.problems:
            found.setdefault(problem.problem, problem)
    return found


def number(value: float) -> str:
    """A number as short as it is exact to 4 decimals."""
    return f"{value:.4f}".rstrip("0").rstrip(".")


def _cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula, on one line."""
    # Where spreadsheets separate by semicolons, one would begin a cell.
    text = one_line(text, NOTE_CHARS).replace(";", ",")
    return f"'{text}" if text.startswith(FORMULA) else text
