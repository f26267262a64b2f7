"""Filters for Markdown: whatever a submission could have written stands in code, or is inert."""

import re

from cs_grader.plain_text import one_line


def code(text: str) -> str:
    """A code span of one line, also in a table; no text can end it."""
    text = one_line(text, 500).replace("|", "\u2502")
    fence = "`" * (1 + _longest_run(text))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}" if text else ""


def escape(text: str) -> str:
    """A text inside a line, so that nothing in it means anything to Markdown or HTML."""
    text = one_line(text, 500).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", text)


def fenced(text: str) -> str:
    """A block of code."""
    fence = "`" * max(3, 1 + _longest_run(text))
    return f"{fence}text\n{text}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
