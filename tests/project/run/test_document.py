"""A report means the same in Markdown and in HTML, and a text in it stays a text."""

import base64
from html.parser import HTMLParser

from cs_basics.run.document import (
    Details,
    Drawing,
    Heading,
    Items,
    Link,
    Paragraph,
    Picture,
    Table,
    to_html,
    to_markdown,
)

NASTY = '<script src="http://x">*a*|`b`\n# c</script>'
PNG = b"\x89PNG..."
BLOCKS = [
    Heading(NASTY),
    Paragraph(NASTY),
    Items([NASTY, "two"]),
    Table(["name", "n", NASTY], [["a", "1", NASTY], ["b", "2", ""]]),
    Picture("plot.png", NASTY, PNG),
    Details(NASTY, NASTY + "\n```\nfence"),
    Link(NASTY, "a <b>.html"),
]


class Elements(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text, self.attributes = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in {"meta", "img"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_html_is_well_formed_and_says_every_text_as_it_is():
    elements = Elements(to_html(NASTY, BLOCKS))
    assert elements.open == []
    assert "script" not in elements.tags
    # Title, heading, paragraph, item, two cells, summary, link; the folded text goes on.
    assert elements.text.count(NASTY) == 9
    assert NASTY + "\n```\nfence" in elements.text


def test_html_loads_nothing_from_anywhere():
    elements = Elements(to_html("t", BLOCKS))
    sources = [value for name, value in elements.attributes if name in {"src", "href"}]
    # A link is followed by a click only, and leads to a file beside the report.
    assert sources == [
        f"data:image/png;base64,{base64.b64encode(PNG).decode()}",
        "a%20%3Cb%3E.html",
    ]
    assert "width=device-width, initial-scale=1" in dict(elements.attributes).values()
    assert not {"link", "script", "iframe"} & set(elements.tags)


def test_markdown_tables_keep_their_shape_whatever_the_cells_hold():
    text = to_markdown("t", [BLOCKS[3]])
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert all(line.replace("\\|", "").count("|") == 4 for line in rows)
    assert rows[1] == "| :-- | --: | :-- |"


def test_markdown_escapes_what_it_would_read_as_markup():
    paragraph = to_markdown("t", [Paragraph(NASTY)]).splitlines()[2]
    expected = '\\<script src="http://x"\\>\\*a\\*\\|\\`b\\` \\# c\\</script\\>'
    assert paragraph == expected


def test_a_fence_is_longer_than_any_in_the_text():
    lines = to_markdown("t", [Details("title", "a\n````\nb")]).splitlines()
    assert lines[4] == lines[-3] == "`" * 7


def test_a_drawing_is_in_the_page_and_named_in_markdown():
    drawing = Drawing("a < b", "<svg></svg>")
    assert '<p role="img" aria-label="a &lt; b"><svg></svg></p>' in to_html("t", [drawing])
    assert "(a \\< b: see the HTML)" in to_markdown("t", [drawing])
