"""Whatever a submission writes, every output stays what it is: escaped, bounded and well-formed."""

import csv
import dataclasses
import io
import json
import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_results import NASTY, finding, github, item, result

from cs_grader.plain_text import one_line, plain
from cs_grader.results.class_page import class_page
from cs_grader.results.gradebook import gradebook_csv
from cs_grader.results.gradescope import results_json
from cs_grader.results.markdown import code, escape
from cs_grader.results.page import report as markdown
from cs_grader.results.page import student_page
from cs_grader.results.reading import Reader

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]")
TEXTS = st.text(st.characters(), max_size=60) | st.sampled_from([NASTY, "]]>", "=1+1", "```\n"])


def hostile(text):
    """A submission that says this text wherever it can say anything."""
    items = [
        item("linear", 0, "failed", message=text, diagnosis=text, item=f"tests/test_x.py::{text}"),
        item("linear", 1, "error", message=text, item=text),
        item("rmsnorm", 1, "error", message=f"ValueError: {text}", is_hidden=True),
    ]
    found = [
        finding(rule, operator=text, file=text, message=text)
        for rule in ("forbidden", "needs review")
    ]
    about = {"submission": text, "note": text, "output": text, "policy": tuple(found)}
    return dataclasses.replace(result(items), **about)


def page(submission):
    return student_page(submission, Reader.INSTRUCTOR)


def of_class(submission):
    return class_page([submission, submission])


def gradebook(submission):
    return gradebook_csv([submission])


def rows_of(text):
    return [*csv.reader(io.StringIO(text))]


class Page(HTMLParser):
    """Fails where tags are not closed in order, and keeps what there is."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.scripts, self.links, self.names = [], [], [], [], set()
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.names |= {name for name, _ in attributes}
        self.links += [value for name, value in attributes if name in {"href", "src"}]
        if tag not in {"meta", "input"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)


def check_page(text, num_scripts=0):
    page = Page(text)
    assert page.tags.count("script") == len(page.scripts) == num_scripts
    assert not {"img", "iframe", "object", "link", "form"} & set(page.tags)
    assert not [name for name in page.names if name.startswith("on")]
    # Nothing but places in the page and files below its folder.
    assert all(re.fullmatch(r"#problem-\d+|\./[^/:]*/\w+\.html", link) for link in page.links)


def check_table(text):
    head, row = rows_of(text)
    assert len(head) == len(row)


OUTPUTS = {
    results_json: json.loads,
    github: json.loads,
    markdown: str,
    student_page: check_page,
    page: check_page,
    of_class: lambda text: check_page(text, 1),
    gradebook: check_table,
}


@settings(max_examples=40, deadline=None)
@given(text=TEXTS)
def test_every_output_is_well_formed_whatever_is_in_it(text):
    for write, check in OUTPUTS.items():
        written = write(hostile(text))
        check(written)
        assert not CONTROL.search(written.encode().decode())


@pytest.mark.parametrize(
    "name",
    ["=cmd|'/C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\x00=1", " =1", "\ufeff=1"],
)
def test_no_spreadsheet_takes_a_cell_for_a_formula(name):
    _, row = rows_of(gradebook(result([item()], name, note=name)))
    for cell in (row[0], row[4]):
        assert cell.startswith("'")
        assert not cell[1:].isspace()
    # Where semicolons separate, too.
    text = gradebook(result([item()], note=f"a;{name}"))
    assert all(not cell.startswith(("=", "+", "-", "@")) for cell in text.split(";")[1:])


def test_huge_texts_are_cut_and_say_so():
    submission = hostile("x" * 30_000)
    submission = dataclasses.replace(submission, items=submission.items * 300)
    for write in OUTPUTS:
        assert len(write(submission)) < 2_500_000
    assert "more characters)" in results_json(submission)


def test_control_characters_and_escape_sequences_are_dropped():
    text = "\x1b[1;31mred\x1b[0m \x1b]0;title\x07bell\x07 a\x00b\r\nc\rd \u202eodd \x9b2J.\ud83d!"
    assert plain(text) == "red bell ab\nc\nd odd .!"
    assert one_line(" a \n\t b ") == "a b"


@pytest.mark.parametrize("part", ["\x1b", "\x1b[", "\x1b]", "\x1b[0"])
def test_dropping_control_characters_takes_time_in_proportion(part):
    def seconds(number):
        start = time.process_time()
        plain(part * number, 1_000_000)
        return time.process_time() - start

    assert "\x1b" not in plain(part * 1000)
    assert seconds(200_000) < 10 * max(seconds(50_000), 0.02)  # A pattern that backtracks: 16.


def test_code_in_markdown_cannot_be_left():
    assert code("a`b``c") == "```a`b``c```"
    assert code("`") == "`` ` ``"
    assert "\n" not in code("a\nb")
    assert escape("<b> [x](y) *z* a|b") == "&lt;b&gt; \\[x\\](y) \\*z\\* a\\|b"
    fenced = markdown(result([item(outcome="failed", message="```\n# head\n````")]))
    assert "  `````text\n  ```\n  # head\n  ````\n  `````" in fenced
