"""Pages from templates: what is put into one stays text, and a page needs nothing else."""

import re

import pytest
from jinja2 import UndefinedError
from matplotlib.figure import Figure

from cs_basics.run.pages import render, to_svg

NASTY = '<script src="http://x">*a*|`b`\n# c</script>'


@pytest.fixture
def filled(tmp_path):
    def fill(name, template, **content):
        (tmp_path / name).write_text(template)
        return render(tmp_path / name, **content)

    return fill


def test_html_says_every_text_as_it_is(filled):
    page = filled("a.html", "<p title='{{ text }}'>{{ text }}</p>", text=f"{NASTY}'")
    assert "<script" not in page
    assert page.count("'") == 2
    assert page.count("&lt;script src=&#34;http://x&#34;&gt;*a*|`b`\n# c&lt;/script&gt;&#39;") == 2


def test_markdown_escapes_what_it_would_read_as_markup(filled):
    text = filled("a.md", "| {{ text }} |", text=NASTY)
    assert text == '| \\<script src="http://x"\\>\\*a\\*\\|\\`b\\` \\# c\\</script\\> |'


def test_a_page_in_the_layout_has_its_style_within_and_loads_nothing(filled):
    page = filled("a.html", '{% extends "layout.html" %}', title="a < b")
    assert "prefers-color-scheme: dark" in page
    assert "<title>a &lt; b<" in page
    assert "default-src 'none'" in page
    assert not re.search(r"<script|<link|<img| src=|@import|url\(", page)


def test_what_a_template_names_has_to_be_given(filled):
    with pytest.raises(UndefinedError, match="'text' is undefined"):
        filled("a.html", "{{ text }}")


def drawn(label):
    figure = Figure()
    panel = figure.subplots()
    panel.plot([1, 2], [3, 4], label=label)
    panel.legend()
    return to_svg(figure)


def test_equal_figures_are_equal_bytes_and_their_texts_stay_texts():
    svg = drawn("<b>&")
    assert svg == drawn("<b>&")
    assert "&lt;b&gt;&amp;" in svg
    assert svg.startswith("<svg")
    assert "<dc:date>" not in svg
