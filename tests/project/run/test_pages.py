"""Pages from templates: what is put into one stays text, and a page needs nothing else."""

import pytest
from jinja2 import UndefinedError
from matplotlib.figure import Figure

from cs_basics.run.pages import render, to_svg


def test_markdown_escapes_what_it_would_read_as_markup_and_what_is_named_has_to_be_given(tmp_path):
    template = tmp_path / "a.md"
    template.write_text("| {{ text }} |")
    text = render(template, text='<script src="http://x">*a*|`b`\n# c</script>')
    assert text == '| \\<script src="http://x"\\>\\*a\\*\\|\\`b\\` \\# c\\</script\\> |'
    with pytest.raises(UndefinedError, match="'text' is undefined"):
        render(template)


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
