"""HTML in which a text stays a text: only what `element` made counts as markup.

A page is one file: style and script stand in it, nothing is loaded, and a policy in its head has
the browser refuse every script but that one.
"""

import base64
import hashlib
import html
from collections.abc import Sequence

from cs_grader.outputs.plain_text import OUTPUT_CHARS, plain
from cs_grader.outputs.style import STYLE

VOID = {"input", "meta"}


class Html(str):
    """Markup; every other str is text and is escaped where it becomes a part of a page."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: str | float | bool) -> Html:
    """Return an element with its children.

    Args:
        tag: Its name.
        *children: Markup as it is, text escaped.
        **attributes: By name with `_` for `-`, and at the end for names that Python keeps
            (`class_`). True is an attribute without a value, False none at all.
    """
    start = tag + "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in VOID:
        return Html(f"<{start}>")
    return Html(f"<{start}>{join(*children)}</{tag}>")


def join(*children: str) -> Html:
    """Return markup that consists of these one after the other."""
    return Html("".join(str(markup(child)) for child in children))


def markup(child: str) -> Html:
    """Return markup as it is and a text escaped, without control characters."""
    if isinstance(child, Html):
        return child
    return Html(html.escape(plain(child, OUTPUT_CHARS), quote=True))


def page(title: str, *body: str, script: str = "") -> str:
    """Return a whole document.

    Args:
        title: Shown by the browser.
        *body: The children of `main`.
        script: JavaScript that runs when all of it is there.
    """
    policy = (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src '{_digest(STYLE)}'"
    )
    if script:
        policy += f"; script-src '{_digest(script)}'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="robots", content="noindex"),
        element("title", title),
        Html(f"<style>{STYLE}</style>"),
    )
    end = Html(f"<script>{script}</script>") if script else ""
    content = element("body", element("main", *body), end)
    return f"<!doctype html>\n{element('html', head, content, lang='en')}\n"


def table(
    heads: Sequence[Html | tuple[str, str]], rows: Sequence[Html], **attributes: str | float | bool
) -> Html:
    """Return a table in a frame that scrolls sideways where the window is too narrow.

    Args:
        heads: The heads of the columns, or for each its text and class.
        rows: The rows below.
        **attributes: Of the table.
    """
    cells = (
        head if isinstance(head, Html) else element("th", head[0], class_=head[1]) for head in heads
    )
    head = element("thead", element("tr", *cells))
    content = element("table", head, Html("\n"), element("tbody", *rows), **attributes)
    return element("div", content, class_="scroll", tabindex="0")


def bar(share: float, kind: str, *more: tuple[float, str]) -> Html:
    """Return a bar filled with shares, one after the other, each of a kind that the style knows."""
    parts: list[Html] = []
    start = 0.0
    for width, name in ((share, kind), *more):
        width = min(max(width, 0.0), 1.0 - start)
        parts.append(
            element(
                "rect",
                x=f"{100 * start:.2f}%",
                width=f"{100 * width:.2f}%",
                height="100%",
                class_=name,
            )
        )
        start += width
    return element("svg", *parts, class_="bar", aria_hidden="true")


def _attribute(name: str, value: str | float | bool) -> str:
    if value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{markup(str(value))}"'


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
