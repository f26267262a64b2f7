"""A page for one submission: what to do next, the score by problem, then what went wrong."""

import datetime

from cs_grader.result import Result
from cs_grader.results import reading
from cs_grader.results.page import render
from cs_grader.results.reading import Reader

MAX_ITEMS = 60
"""Wrong items that are shown of each problem, and findings."""


def student_page(result: Result, reader: Reader = Reader.STUDENT) -> str:
    """Return the page as the student, or the instructor, may see it."""
    result = reading.as_seen_by(result, reader)
    return render(
        "student_page.html",
        result=result,
        # What is to be done next is open already.
        opened=reading.next_problem(result),
        took=datetime.timedelta(seconds=round(max(result.seconds, 0.0))),
        is_instructor=reader is Reader.INSTRUCTOR,
        max_items=MAX_ITEMS,
    )
