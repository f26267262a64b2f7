"""report.md: a submission's report for a terminal, a pull request or the summary of a workflow."""

import re

from cs_grader.result import Problem, Result
from cs_grader.results import reading
from cs_grader.results.plain_text import one_line
from cs_grader.results.reading import Reader

MAX_ITEMS = 10
"""Wrong items that are shown of each problem."""


def markdown(result: Result, reader: Reader = Reader.STUDENT) -> str:
    """Return the report; whatever a submission could have written stands in code, inert."""
    result = reading.as_seen_by(result, reader)
    points = f"{reading.shown_points(result.score)} of {result.max_score:g} points"
    lines = [f"# {code(result.submission)}: {points}", ""]
    if result.note:
        lines += [code(result.note), ""]
    lines += [_next_step(result), "", "| problem | points | of | right | wrong | not started |"]
    lines.append("|:--|--:|--:|--:|--:|--:|")
    for problem in result.problems:
        cells = (
            escape(reading.title(problem)),
            reading.shown_points(problem.points),
            f"{problem.max_points:g}",
            *(str(count) for count in (problem.passed, problem.failed, problem.not_started)),
        )
        lines.append(f"| {' | '.join(cells)} |")
    if result.policy:
        lines += ["", "## Use of what the assignment asks to write", ""]
        lines += [
            f"- {escape(finding.rule)}: {code(reading.describe(finding))}"
            for finding in result.policy
        ]
    for problem in result.problems:
        lines += _wrong_items(result, problem)
    isolation = reading.ISOLATION.get(result.isolation, result.isolation)
    return "\n".join([*lines, "", f"Isolation: {escape(isolation)}", ""])


def _next_step(result: Result) -> str:
    step = reading.next_step(result)
    if step is None:
        return "Nothing is left to do." if result.problems else ""
    lines = [f"**{escape(step.task)}**"]
    lines.append(f"Try it with {code(step.command)}.")
    if step.waiting:
        lines.append(f"It may explain what is wrong with: {escape(step.waiting)}.")
    return " ".join(lines)


def _wrong_items(result: Result, problem: Problem) -> list[str]:
    wrong = reading.wrong_items(result, problem.problem)
    hidden = reading.hidden_count(problem)
    if not wrong and not hidden:
        return []
    lines = ["", f"## {escape(reading.title(problem))}", *(["", hidden] if hidden else [])]
    for item in wrong[:MAX_ITEMS]:
        lines += ["", f"- {code(reading.name(item))} ({reading.kind(item)})", ""]
        lines += _fenced(reading.explanation(item))
    if len(wrong) > MAX_ITEMS:
        lines += ["", f"... and {len(wrong) - MAX_ITEMS} more."]
    return lines


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


def _fenced(text: str) -> list[str]:
    """A block of code inside a list item."""
    fence = "`" * max(3, 1 + _longest_run(text))
    return [f"  {line}" for line in (f"{fence}text", *text.split("\n"), fence)]


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
