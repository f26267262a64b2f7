"""The table of everyone on the class page, with what filters it."""

import dataclasses
import re
import urllib.parse

from cs_grader.outputs import reading
from cs_grader.outputs.gradebook import number
from cs_grader.outputs.page import Html, element, join, table
from cs_grader.outputs.plain_text import one_line
from cs_grader.result import Problem, Result

Mistake = tuple[str, str]
"""A problem's id and the diagnosis, in words."""


@dataclasses.dataclass(frozen=True, slots=True)
class Class:
    """The results of everyone, and what they have in common."""

    results: list[Result]
    problems: dict[str, Problem]
    """Every problem of the examination, by id, in its order."""
    mistakes: list[tuple[Mistake, int]]
    """The diagnosed mistakes with how many made them, the most common first."""

    def index(self, problem: str) -> str:
        """A problem's place, which stands for it in the page."""
        return str(list(self.problems).index(problem))


def mistakes_of(result: Result) -> set[Mistake]:
    """The diagnosed mistakes of one submission, each once."""
    return {
        (item.problem, reading.diagnosis(item))
        for item in result.items
        if item.diagnosis and item.outcome != "passed"
    }


def marks_of(result: Result) -> list[str]:
    """What sets a submission apart, as far as the menu "Show" asks for it."""
    needs_review = any(finding.rule == reading.NEEDS_REVIEW for finding in result.policy)
    is_forbidden = any(finding.rule != reading.NEEDS_REVIEW for finding in result.policy)
    is_full = bool(result.problems) and all(map(reading.is_right, result.problems))
    marks = {"review": needs_review, "forbidden": is_forbidden, "note": bool(result.note)}
    return [mark for mark, is_set in {**marks, "full": is_full}.items() if is_set]


def filters(data: Class) -> Html:
    """What the table can be filtered by; hidden where no script runs."""
    problems = [
        (str(place), reading.title(problem)) for place, problem in enumerate(data.problems.values())
    ]
    mistakes = [(str(place), mistake) for place, ((_, mistake), _) in enumerate(data.mistakes)]
    marks = [
        ("review", "needs review"),
        ("forbidden", "forbidden operator used"),
        ("note", "with a note"),
        ("full", "everything right"),
    ]
    search = element("input", id="search", type="search", placeholder="name or note", size=18)
    return element(
        "div",
        element("label", "Search", search),
        _menu("problem", "Not all right in", problems),
        _menu("mistake", "Who made the mistake", mistakes),
        _menu("mark", "Show", marks),
        element("button", "Clear", id="clear", type="button"),
        element("span", id="shown", class_="soft", role="status"),
        id="filters",
        class_="filters",
        hidden=True,
    )


def _menu(name: str, label: str, choices: list[tuple[str, str]]) -> Html:
    options = [element("option", text[:60], value=value) for value, text in choices]
    return element(
        "label", label, element("select", element("option", "all", value=""), *options, id=name)
    )


def everyone_table(data: Class) -> Html:
    """A row for each submission: score, points by problem, note."""
    heads = [
        _head("submission"),
        _head("score", class_="n", data_descending=True),
        *(
            _head(reading.title(problem), class_="problem", data_descending=True)
            for problem in data.problems.values()
        ),
        _head("note"),
    ]
    rows = [join(_row(data, result), Html("\n")) for result in data.results]
    return element("div", table(heads, rows, id="class", class_="class"), class_="everyone")


def _head(text: str, **attributes: str | bool) -> Html:
    return element("th", element("button", text, type="button"), scope="col", **attributes)


def _row(data: Class, result: Result) -> Html:
    name, note = one_line(result.submission), one_line(result.note, 500)
    marks = marks_of(result)
    remark = "; ".join(filter(None, [note, "needs review" if "review" in marks else ""]))
    earned = {problem.problem: problem for problem in result.problems}
    wrong = [data.index(p.problem) for p in result.problems if not reading.is_right(p)]
    made = mistakes_of(result)
    mistakes = [str(at) for at, (mistake, _) in enumerate(data.mistakes) if mistake in made]
    whole = element("a", "in full", href=link(result, "instructor"), class_="soft small screen")
    return element(
        "tr",
        element(
            "th",
            element("a", name, href=link(result, "index")),
            " ",
            whole,
            scope="row",
            data_text=name,
        ),
        element(
            "td", reading.shown_points(result.score), class_="n", data_value=number(result.score)
        ),
        *(_points(earned.get(problem)) for problem in data.problems),
        element("td", remark, class_="remark", data_text=remark),
        data_find=f"{name} {note}".lower(),
        data_wrong=" ".join(wrong),
        data_mistakes=" ".join(mistakes),
        data_marks=" ".join(marks),
    )


def _points(problem: Problem | None) -> Html:
    if problem is None:
        return element("td", "", class_="n", data_value="-1")
    shade = "full" if reading.is_right(problem) else "part" if problem.passed else "none"
    text = reading.shown_points(problem.points).removesuffix(".0")
    return element("td", text, class_=f"n {shade}", data_value=number(problem.points))


def link(result: Result, page_name: str) -> str:
    """The address of a page of a submission, in the folder of its name."""
    # The dot keeps a name such as "javascript:x" from being taken for another scheme.
    folder = urllib.parse.quote(result.submission, safe="", errors="replace")
    return f"./{folder}/{page_name}.html"


def natural_order(result: Result) -> list[tuple[int, str]]:
    """A key that sorts student-9 before student-10."""
    parts = re.split(r"([0-9]{1,18})", result.submission.lower())
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
