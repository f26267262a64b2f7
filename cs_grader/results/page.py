"""Fills in the templates beside this file. A submission may have written what is put into them.

Every text is escaped, loses its control characters and is cut where it is too long. A policy in the
head of each page keeps it from loading anything and from running any script but its own.
"""

import base64
import functools
import hashlib
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from cs_grader.results import reading
from cs_grader.results.plain_text import OUTPUT_CHARS, one_line, plain

# The style is that of the examination's page.
FOLDERS = (Path(__file__).parent, Path(__file__).parents[2] / "tests/exam")


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
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"digest": _digest, "one_line": one_line, "plain": plain}
    return environment


def _shown(value: object) -> object:
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return plain(value, OUTPUT_CHARS)


def _digest(text: str) -> str:
    """Name a style or script as a Content-Security-Policy does."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
