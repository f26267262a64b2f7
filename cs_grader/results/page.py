"""Fills in the templates beside this file. A submission may have written what is put into them.

Every text is escaped, loses its control characters and is cut where it is too long. A policy in the
head of each page keeps it from loading anything and from running any script but its own.

    student_page.html   what to do next, the score by problem, then what went wrong
    report.md           the same for a terminal, a pull request or the summary of a workflow
    class_page.html     a class (class_page.py)
"""

import base64
import functools
import hashlib
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from cs_grader.plain_text import OUTPUT_CHARS, one_line, plain
from cs_grader.result import Result
from cs_grader.results import markdown, reading
from cs_grader.results.reading import Reader

# The style is that of the examination's page.
FOLDERS = (Path(__file__).parent, Path(__file__).parents[2] / "tests/exam")


def student_page(result: Result, reader: Reader = Reader.STUDENT) -> str:
    """Return the page of one submission as the student, or the instructor, may see it."""
    return _for_one("student_page.html", result, reader)


def report(result: Result, reader: Reader = Reader.STUDENT) -> str:
    """Return the same in Markdown."""
    return _for_one("report.md", result, reader)


def _for_one(name: str, result: Result, reader: Reader) -> str:
    is_instructor = reader is Reader.INSTRUCTOR
    return render(name, result=reading.as_seen_by(result, reader), is_instructor=is_instructor)


def render(name: str, **content: object) -> str:
    """Return the page that a template makes of what it names.

    Args:
        name: The template's file; it extends layout.html.
        **content: What it names beside the functions of `reading`.
    """
    return _environment().get_template(name).render(content, reading=reading)


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDERS),
        # In Markdown by filters: what is escaped depends on where it stands.
        autoescape=lambda name: not str(name).endswith(".md"),
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"digest": _digest, "one_line": one_line, "plain": plain}
    environment.filters |= {"code": markdown.code, "inert": markdown.escape}
    environment.filters["fenced"] = markdown.fenced
    return environment


def _shown(value: object) -> object:
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return plain(value, OUTPUT_CHARS)


def _digest(text: str) -> str:
    """Name a style or script as a Content-Security-Policy does."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
