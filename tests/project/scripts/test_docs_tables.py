"""The tables of the pages: each row that is written is a row of the page."""

import re

import pytest
from markdown_it import MarkdownIt
from processes import ROOT

PAGES = sorted(path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def rows_of(text):
    """How many lines are written as rows, outside of code, and how many rows a renderer makes."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^ *\|.*", prose, re.MULTILINE)
    rules = [line for line in lines if re.fullmatch(r"[ |:-]*-[ |:-]*", line)]
    return len(lines) - len(rules), MarkdownIt().enable("table").render(prose).count("<tr>")


def test_a_row_that_is_broken_over_two_lines_is_seen():
    written, rendered = rows_of("| a | b |\n|---|---|\n| one | two\nthree |\n| four | five |\n")
    assert written < rendered


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_row_is_rendered_as_one(path):
    written, rendered = rows_of(path.read_text(encoding="utf-8"))
    assert written == rendered
