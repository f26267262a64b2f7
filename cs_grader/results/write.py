"""Writes every output of a submission, and those of a class."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from cs_grader.result import Result, write_atomically
from cs_grader.results.class_page import class_page
from cs_grader.results.github import github_result
from cs_grader.results.gradebook import gradebook_csv
from cs_grader.results.gradescope import results_json
from cs_grader.results.page import report, student_page
from cs_grader.results.reading import Reader


def write_outputs(result: Result, folder: Path) -> None:
    """Write every output of one submission into a folder that exists.

    All of them but instructor.html are fit for the student's eyes.

    Raises:
        OSError: A file cannot be written; each is whole or not there.
    """
    outputs = {
        "results.json": results_json(result),
        "github-classroom.txt": github_result(result),
        "report.md": report(result),
        "index.html": student_page(result),
        "instructor.html": student_page(result, Reader.INSTRUCTOR),
    }
    for name, text in outputs.items():
        # To force them to the disk would take longer than all of the rest: after a crash they can
        # be written again from the result.
        write_atomically(folder / name, text, survives_crash=False)


def write_class(
    results: Sequence[Result],
    folder: Path,
    faults: Mapping[str, str] | None = None,
    people: Mapping[str, tuple[str, str]] | None = None,
    about: Sequence[str] = (),
) -> None:
    """Write the outputs about everyone: gradebook.csv and index.html.

    The page links to what `write_outputs` wrote into a folder of each submission's name.

    Args:
        results: What came of each submission.
        folder: Where to write.
        faults: Why a submission has no result, by its name.
        people: Names and addresses of those who handed in a submission, for the gradebook.
        about: What the page says of the class, such as the day of the grading.

    Raises:
        OSError: A file cannot be written.
    """
    write_atomically(folder / "gradebook.csv", gradebook_csv(results, faults, people))
    write_atomically(folder / "index.html", class_page(results, faults, about))


def check_class(result: Result) -> None:
    """Fail if a result cannot be shown beside the others, now and not when all are written."""
    gradebook_csv([result])
    class_page([result])
