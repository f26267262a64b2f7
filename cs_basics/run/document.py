"""Reports as lists of blocks (heading, paragraph, table...), rendered as Markdown or HTML."""

import base64
import html
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from cs_basics.run.atomic import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1, h2 { line-height: 1.2; }
img { max-width: 100%; height: auto; }
svg { max-width: 48rem; width: 100%; height: auto; display: block; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.6rem; border-bottom: 1px solid #ccc; text-align: right; }
th:first-child, td:first-child, td:last-child, th:last-child { text-align: left; }
table.text :is(th, td) { text-align: left; vertical-align: top; }
th { vertical-align: bottom; }
pre { overflow-x: auto; font-size: 0.85rem; }
""".strip()


@dataclass(frozen=True)
class Heading:
    """A heading of the second level."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Plain text."""

    text: str


@dataclass(frozen=True)
class Link:
    """A paragraph that leads to a file beside the report."""

    text: str
    file: str


@dataclass(frozen=True)
class Items:
    """A bulleted list of plain texts."""

    texts: Sequence[str]


@dataclass(frozen=True)
class Table:
    """A table of numbers: the first and last columns are aligned left, the others right."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    anchors: Sequence[str] = ()
    """Names of the rows, to which a link can lead; none: rows have no names."""
    is_text: bool = False
    """Whether it is a table of texts: every column is aligned left."""


@dataclass(frozen=True)
class Picture:
    """A PNG image, embedded in the HTML; Markdown links to a file of this name beside it."""

    name: str
    text: str
    """Description of the image, for screen readers."""
    png: bytes = field(repr=False)


@dataclass(frozen=True)
class Drawing:
    """An SVG image, embedded in the HTML; Markdown shows only its description."""

    text: str
    """Description of the image, for screen readers."""
    svg: str = field(repr=False)
    """An <svg> element, inserted as it is: the texts inside must be escaped."""


@dataclass(frozen=True)
class Details:
    """Preformatted text that is collapsed until the reader opens it."""

    title: str
    text: str


@dataclass(frozen=True)
class Code:
    """Preformatted text."""

    text: str


Block = Heading | Paragraph | Link | Items | Table | Picture | Drawing | Details | Code


def to_markdown(title: str, blocks: Iterable[Block]) -> str:
    """Render a report as Markdown."""
    return "\n\n".join([f"# {_escape_markdown(title)}", *map(_markdown, blocks)]) + "\n"


def write_markdown(path: Path, title: str, blocks: Sequence[Block]) -> None:
    """Write a report as Markdown, and its pictures beside it."""
    for block in blocks:
        if isinstance(block, Picture):
            write_atomically(path.parent / block.name, block.png)
    write_atomically(path, to_markdown(title, blocks).encode())


def to_png(figure: "Figure") -> bytes:
    """Return a figure as a PNG."""
    buffer = io.BytesIO()
    # Without the version that matplotlib would write, equal values give equal files.
    figure.savefig(buffer, dpi=110, format="png", metadata={"Software": None})
    return buffer.getvalue()


def to_html(title: str, blocks: Iterable[Block], refresh_s: int | None = None) -> str:
    """Render a report as one HTML file that needs no other file and no network.

    Args:
        title: Title of the report.
        blocks: Contents of the report.
        refresh_s: Seconds after which a browser reloads the page; None: never.
    """
    body = "\n".join(map(_html, blocks))
    refresh = f'<meta http-equiv="refresh" content="{refresh_s}">\n' if refresh_s else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{refresh}<title>{html.escape(title)}</title>
<style>
{_STYLE}
</style>
</head>
<body>
<h1>{html.escape(title)}</h1>
{body}
</body>
</html>
"""


def _markdown(block: Block) -> str:  # noqa: C901 (one case for each kind of block)
    match block:
        case Heading(text):
            return f"## {_escape_markdown(text)}"
        case Paragraph(text):
            return _escape_markdown(text)
        case Link(text, file):
            return f"[{_escape_markdown(text)}]({quote(file)})"
        case Items(texts):
            return "\n".join(f"- {_escape_markdown(text)}" for text in texts)
        case Table(header, rows, anchors, is_text):
            left = range(len(header)) if is_text else (0, len(header) - 1)
            rule = [":--" if index in left else "--:" for index in range(len(header))]
            lines = [[_escape_markdown(cell) for cell in row] for row in (header, *rows)]
            for line, anchor in zip(lines[1:] if anchors else [], anchors, strict=True):
                line[0] = f'<a id="{html.escape(anchor)}"></a>{line[0]}'
            lines.insert(1, rule)
            return "\n".join(f"| {' | '.join(line)} |" for line in lines)
        case Picture(name, text):
            return f"![{_escape_markdown(text)}]({name})"
        case Drawing(text, _):
            return f"({_escape_markdown(text)}: see the HTML)"
        case Details(title, text):
            summary = f"<details><summary>{html.escape(title)}</summary>"
            return f"{summary}\n\n{_fenced(text)}\n\n</details>"
        case Code(text):
            return _fenced(text)


def _html(block: Block) -> str:
    match block:
        case Heading(text):
            return f"<h2>{html.escape(text)}</h2>"
        case Paragraph(text):
            return f"<p>{html.escape(text)}</p>"
        case Link(text, file):
            return f'<p><a href="{quote(file)}">{html.escape(text)}</a></p>'
        case Items(texts):
            return f"<ul>{''.join(f'<li>{html.escape(text)}</li>' for text in texts)}</ul>"
        case Table(header, rows, anchors, is_text):
            kind = ' class="text"' if is_text else ""
            head = _html_row("th", header)
            names = anchors or [""] * len(rows)
            body = "\n".join(map(_html_row, ["td"] * len(rows), rows, names))
            return (
                f'<div class="wide"><table{kind}>\n'
                f"<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
            )
        case Picture(_, text, png):
            data = base64.b64encode(png).decode()
            return f'<p><img src="data:image/png;base64,{data}" alt="{html.escape(text)}"></p>'
        case Drawing(text, svg):
            return f'<p role="img" aria-label="{html.escape(text)}">{svg}</p>'
        case Details(title, text):
            return (
                f"<details><summary>{html.escape(title)}</summary>"
                f"<pre>{html.escape(text)}</pre></details>"
            )
        case Code(text):
            return f"<pre>{html.escape(text)}</pre>"


def _html_row(tag: str, cells: Iterable[str], anchor: str = "") -> str:
    name = f' id="{html.escape(anchor)}"' if anchor else ""
    return f"<tr{name}>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _escape_markdown(text: str) -> str:
    """Escape the characters that Markdown takes for markup, and join lines."""
    for character in "\\`*_|<>[]#":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


def _fenced(text: str) -> str:
    fence = "`" * (3 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}"
