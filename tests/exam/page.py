"""A page of what failed and why (--exam-page=FILE): one file, no script, nothing from elsewhere."""

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from report import RUBRIC, Row, advice, causes_of, count, plural, points_of, shown, write_file

MOST_OF_A_CAUSE = 20


def write_page(rows: Sequence[Row], path: Path) -> None:
    """Fill in page.html, beside this file; see the module."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=writable,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    earned = points_of(rows)
    problems = [
        (problem, RUBRIC[problem], counter, earned[problem], causes_of(problem, rows))
        for problem, counter in count(rows).items()
    ]
    told = {"problems": problems, "advice": advice(rows), "most": MOST_OF_A_CAUSE}
    template = environment.get_template("page.html")
    content = template.render(told, plural=plural, shown=shown)
    write_file(content, path)


def writable(value: object) -> object:
    """Show what cannot be written."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return value.encode("utf-8", "backslashreplace").decode()
