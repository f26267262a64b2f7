"""A page for one submission: what to do next, the score by problem, then what went wrong."""

import datetime
from collections.abc import Sequence

from cs_grader.outputs import reading
from cs_grader.outputs.page import Html, bar, element, join, page, table
from cs_grader.outputs.plain_text import one_line
from cs_grader.outputs.reading import Reader
from cs_grader.result import Finding, Item, Problem, Result

MAX_ITEMS = 60
"""Wrong items that are shown of each problem."""


def student_page(result: Result, reader: Reader = Reader.STUDENT) -> str:
    """Return the page as the student, or the instructor, may see it."""
    result = reading.as_seen_by(result, reader)
    name = one_line(result.submission)
    step = reading.next_problem(result)
    # What is to be done next is open already.
    opened = step.problem if step else ""
    return page(
        f"{name}: {_score(result)}",
        element("h1", name),
        element("p", element("b", _score(result)), f" of {result.max_score:g} points"),
        element("p", result.note, class_="note") if result.note else "",
        _next(result),
        _problems(result),
        _policy(result.policy),
        *(_items(result, problem, problem.problem == opened) for problem in result.problems),
        _output(reading.output(result)),
        _how(result, reader),
    )


def _score(result: Result) -> str:
    return reading.shown_points(result.score)


def _next(result: Result) -> Html:
    step = reading.next_step(result)
    if step is None:
        done = "Everything is right. Nothing is left to do."
        return element("p", done, class_="card next") if result.problems else Html()
    lines = [element("p", element("strong", step.task))]
    lines.append(element("p", "Try it with ", element("code", step.command)))
    if step.waiting:
        lines.append(element("p", f"It may explain what is wrong with: {step.waiting}."))
    return element("section", *lines, class_="card next", aria_label="What to do next")


def _problems(result: Result) -> Html:
    heads = (
        ("Problem", ""),
        ("", "drop"),
        ("points", "n"),
        ("right", "n drop"),
        ("wrong", "n"),
        ("not started", "n"),
    )
    rows = [_problem_row(result, place, problem) for place, problem in enumerate(result.problems)]
    if not rows:
        return Html()
    return join(element("h2", "Points"), table(heads, rows))


def _problem_row(result: Result, place: int, problem: Problem) -> Html:
    title = reading.title(problem)
    has_section = problem.hidden_wrong or reading.wrong_items(result, problem.problem)
    counts = (problem.passed, problem.failed, problem.not_started)
    share = 1 / max(sum(counts), 1)
    return element(
        "tr",
        element("td", element("a", title, href=f"#problem-{place}") if has_section else title),
        element(
            "td",
            bar(
                problem.passed * share,
                "right",
                (problem.failed * share, "wrong"),
                (problem.not_started * share, "open"),
            ),
            class_="wide drop",
        ),
        element(
            "td", f"{reading.shown_points(problem.points)} of {problem.max_points:g}", class_="n"
        ),
        *(
            element("td", str(count) if count else "\u00b7", class_="n drop" if first else "n")
            for count, first in zip(counts, (True, False, False), strict=True)
        ),
    )


def _policy(findings: Sequence[Finding]) -> Html:
    if not findings:
        return Html()
    rows = [
        element(
            "tr",
            element("td", finding.rule),
            element("td", one_line(finding.problem)),
            element("td", element("code", one_line(finding.operator))),
            element("td", f"{one_line(finding.file)}, line {finding.line}"),
            element("td", finding.message),
        )
        for finding in findings[:MAX_ITEMS]
    ]
    heads = [(text, "") for text in ("rule", "problem", "what", "where", "")]
    left_out = len(findings) - MAX_ITEMS
    parts = [element("h2", "Use of what the assignment asks to write"), table(heads, rows)]
    parts += [element("p", f"... and {left_out} more.")] if left_out > 0 else []
    return join(*parts)


def _items(result: Result, problem: Problem, is_open: bool) -> Html:
    wrong = reading.wrong_items(result, problem.problem)
    hidden = reading.hidden_count(problem)
    if not wrong and not hidden:
        return Html()
    place = result.problems.index(problem)
    parts = [element("h2", reading.title(problem), id=f"problem-{place}")]
    parts += [element("p", hidden)] if hidden else []
    causes = reading.most_common([reading.diagnosis(item) for item in wrong if item.diagnosis])
    for cause, count in causes[:3]:
        checks = "check looks" if count == 1 else "checks look"
        parts.append(element("p", f"{count} {checks} like this mistake: ", element("b", cause)))
    parts += (_item(item, is_open and number == 0) for number, item in enumerate(wrong[:MAX_ITEMS]))
    if len(wrong) > MAX_ITEMS:
        parts.append(element("p", f"... and {len(wrong) - MAX_ITEMS} more.", class_="soft"))
    return element("section", *parts)


def _item(item: Item, is_open: bool) -> Html:
    kind = element(
        "span", reading.kind(item), class_="kind open" if item.outcome == "not_started" else "kind"
    )
    return element(
        "details",
        element("summary", element("code", reading.name(item)), kind),
        element("pre", reading.explanation(item)),
        open=is_open,
    )


def _output(text: str) -> Html:
    if not text:
        return Html()
    return element(
        "section",
        element("h2", "What it printed"),
        element("details", element("summary", "Show"), element("pre", text)),
    )


def _how(result: Result, reader: Reader) -> Html:
    isolation = reading.ISOLATION.get(result.isolation, result.isolation)
    took = datetime.timedelta(seconds=round(max(result.seconds, 0.0)))
    lines = [f"Isolation: {isolation}. Marked in {took} (hours:minutes:seconds)."]
    if any(problem.hidden for problem in result.problems) and reader is Reader.STUDENT:
        lines.append("Of checks on hidden inputs only their number is shown.")
    if reader is Reader.INSTRUCTOR:
        lines += [
            "For instructors: this page shows hidden inputs.",
            f"Secret: {result.secret or 'none'}. Content: {result.key}.",
        ]
    return element("section", *(element("p", line, class_="soft small") for line in lines))
