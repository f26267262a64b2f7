"""The tables of the pages: each row that is written is a row of the page."""

import re

import pytest
from markdown_it import MarkdownIt
from processes import ROOT

PAGES = sorted(path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_line_that_is_written_as_a_row_is_rendered_as_one(path):
    text = path.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^ *\|.*", prose, re.MULTILINE)
    rules = [line for line in lines if re.fullmatch(r"[ |:-]*-[ |:-]*", line)]
    rendered = MarkdownIt().enable("table").render(prose).count("<tr>")
    assert len(lines) - len(rules) == rendered
