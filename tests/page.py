"""A page of what failed and why (--exam-page=FILE): one file, no script, nothing from elsewhere."""

import html
from collections.abc import Iterator, Sequence
from pathlib import Path

from report import RUBRIC, Row, causes_of, count, plural, points_of, shown, write_file

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; background: #fff }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid #ddd }
td.number, th.number { text-align: right }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f4f4f4; padding: .6rem }
summary { cursor: pointer }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #181818 } pre { background: #262626 } a { color: #8bf }
  th, td { border-color: #444 }
}
"""
MOST_OF_A_CAUSE = 20


def write_page(rows: Sequence[Row], path: Path) -> None:
    """Write the page; see the module."""
    write_file("\n".join(lines(rows)) + "\n", path)


def lines(rows: Sequence[Row]) -> Iterator[str]:
    yield '<!doctype html><html lang="en"><meta charset="utf-8"><title>Examination</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>{STYLE}</style><h1>Examination</h1><table><tr><th>Problem"
    yield "".join(f'<th class="number">{head}' for head in ("passed", "failed", "points"))
    counts = count(rows)
    for problem, counter in counts.items():
        title, possible = RUBRIC[problem]["title"], RUBRIC[problem]["points"]
        failed = counter["failed"] + counter["error"]
        cells = (counter["passed"], failed, f"{shown(points_of(problem, rows))} of {possible}")
        link = f'<a href="#{problem}">{text(title)}</a>' if failed else text(title)
        yield f"<tr><td>{link}" + "".join(f'<td class="number">{cell}' for cell in cells)
    yield "</table>"
    for problem in counts:
        causes = causes_of(problem, rows)
        if causes:
            yield f'<h2 id="{problem}">{text(RUBRIC[problem]["title"])}</h2>'
        for cause, failures in causes:
            yield f"<h3>{text(cause)}: {plural(len(failures), 'item')}</h3>"
            for place, row in enumerate(failures[:MOST_OF_A_CAUSE]):
                name = row["item"].partition("::")[2]
                opened = " open" if place == 0 else ""
                yield f"<details{opened}><summary>{text(name)}</summary>"
                yield f"<pre>{text(row['message'])}</pre></details>"
            if len(failures) > MOST_OF_A_CAUSE:
                yield f"<p>and {len(failures) - MOST_OF_A_CAUSE} more</p>"


def text(words: str) -> str:
    """Escape what a page would take for markup, and show what cannot be written."""
    return html.escape(words.encode("utf-8", "backslashreplace").decode())
