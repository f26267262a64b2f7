"""Pages, each from a template that lies beside its writer, and the figures in them.

Whatever is put into a template stays text: its ending says whether HTML or Markdown is escaped.
Only what is marked as markup (`to_svg`, the filter `safe`) goes in as it is.
"""

import functools
import io
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_eval_context
from jinja2.nodes import EvalContext
from jinja2.utils import select_autoescape
from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def render(template: Path, **content: object) -> str:
    """Fill in a template; it may extend layout.html, which holds the style of every page.

    Args:
        template: The file.
        **content: What it names; a name that is missing here raises jinja2.UndefinedError.
    """
    return _environment(template.parent).get_template(template.name).render(content)


@functools.cache
def _environment(folder: Path) -> Environment:
    return Environment(
        loader=FileSystemLoader([folder, Path(__file__).parent]),
        autoescape=select_autoescape(),
        finalize=_as_text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@pass_eval_context
def _as_text(context: EvalContext, value: object) -> object:
    """Escape for Markdown, on one line, what autoescape does not escape for HTML."""
    if context.autoescape or isinstance(value, Markup):
        return value
    text = " ".join(str(value).split())
    for character in "\\`*_|<>[]#":
        text = text.replace(character, f"\\{character}")
    return text


def to_svg(figure: "Figure") -> Markup:
    """Return a figure as an <svg> element; equal values give equal bytes.

    Black lines and letters take the colour of the page's text, so that they show in the dark.
    """
    from matplotlib import rc_context

    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with rc_context({"svg.hashsalt": "cs_basics", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    return Markup(text[text.index("<svg") :])  # matplotlib escapes the texts in it


def to_png(figure: "Figure") -> bytes:
    """Return a figure as a PNG; equal values give equal bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=110, format="png", metadata={"Software": None})
    return buffer.getvalue()
