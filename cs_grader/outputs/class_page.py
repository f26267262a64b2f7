"""The class at a glance: how scores spread, what goes wrong most, and a table of everyone."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from cs_grader.outputs import reading
from cs_grader.outputs.class_clusters import clusters_section
from cs_grader.outputs.class_script import SCRIPT
from cs_grader.outputs.class_table import (
    Class,
    everyone_table,
    filters,
    link,
    marks_of,
    mistakes_of,
    natural_order,
)
from cs_grader.outputs.cluster_names import Named
from cs_grader.outputs.gradebook import problems_of
from cs_grader.outputs.page import Html, bar, element, join, page, table
from cs_grader.outputs.plain_text import one_line
from cs_grader.result import Finding, Result

NUM_BINS = 10
MAX_MISTAKES = 25
MAX_FINDINGS = 200


def class_page(
    results: Sequence[Result],
    faults: Mapping[str, str] | None = None,
    clusters: Sequence[Named] = (),
    unused: Sequence[str] = (),
) -> str:
    """Return the page; it links the page of each submission, in a folder of its name.

    Args:
        results: What came of each submission.
        faults: Why a submission has no result, by its name.
        clusters: Who answers alike, and what the instructor calls it.
        unused: A line for each name that fits no cluster.
    """
    everyone = sorted(results, key=natural_order)
    made = Counter(mistake for result in everyone for mistake in mistakes_of(result))
    mistakes = sorted(made.items(), key=lambda entry: (-entry[1], entry[0]))
    data = Class(everyone, problems_of(everyone), mistakes[:MAX_MISTAKES])
    num = len(everyone)
    submissions = "1 submission" if num == 1 else f"{num} submissions"
    if not everyone:
        nothing = element("p", "Nothing was marked.")
        return page(submissions, element("h1", submissions), nothing, _faults(faults or {}))
    return page(
        f"{submissions}: gradebook",
        element("h1", submissions),
        _isolation(data),
        _faults(faults or {}),
        _figures(data),
        element(
            "div",
            element("section", element("h2", "Scores"), _histogram(data)),
            element("section", element("h2", "Diagnosed mistakes"), _mistakes(data)),
            class_="columns",
        ),
        *(element("p", one_line(line, 500), class_="note") for line in unused),
        clusters_section(clusters, everyone, data.problems),
        element("section", element("h2", "Problems by failure rate"), _problems(data)),
        _to_review(data),
        element("h2", "Everyone", id="students"),
        filters(data),
        everyone_table(data),
        script=SCRIPT,
    )


def _isolation(data: Class) -> Html:
    tiers = Counter(result.isolation for result in data.results)
    text = ", ".join(
        f"{num} in {reading.ISOLATION.get(tier, tier)}" for tier, num in sorted(tiers.items())
    )
    how = element("p", f"Isolation: {text}", class_="soft")
    if "process" not in tiers:
        return how
    warning = (
        "These scores can be forged: without a wall around it a submission can read and change what"
        " the grader's user can, other submissions and these pages among them."
    )
    return join(element("p", element("b", warning), class_="note", role="alert"), how)


def _faults(faults: Mapping[str, str]) -> Html:
    """Who has no result, and why."""
    if not faults:
        return Html()
    rows = [
        element("li", element("b", one_line(name)), f": {one_line(fault, 500)}")
        for name, fault in sorted(faults.items())
    ]
    words = "Not graded, for a reason that is the grader's:"
    return element("div", element("p", words), element("ul", *rows), class_="note", role="alert")


def _figures(data: Class) -> Html:
    scores = [result.score for result in data.results]
    marks = Counter(mark for result in data.results for mark in marks_of(result))
    figures = [
        (reading.shown_points(statistics.median(scores)), "median score"),
        (reading.shown_points(statistics.fmean(scores)), "mean score"),
        (f"{max(result.max_score for result in data.results):g}", "points possible"),
        (str(marks["full"]), "with everything right"),
        (str(marks["note"]), "with a note"),
        (str(marks["review"]), "to review"),
    ]
    cards = [element("div", element("b", value), text, class_="card") for value, text in figures]
    return element("div", *cards, class_="figures")


def _histogram(data: Class) -> Html:
    """How many scores lie in each tenth of the points possible."""
    bins = [0] * NUM_BINS
    for result in data.results:
        share = result.score / result.max_score if result.max_score else 0.0
        bins[min(max(int(share * NUM_BINS + 1e-9), 0), NUM_BINS - 1)] += 1
    height, width, base = 150, 44, 175
    parts: list[Html] = []
    for place, count in enumerate(bins):
        if not count:
            continue
        # A single submission among hundreds still is to be seen.
        tall = max(height * count / max(bins), 2.0)
        top, left = base - tall, place * width + 20
        box = {"x": left + 3, "y": f"{top:.1f}", "width": width - 6, "height": f"{tall:.1f}"}
        parts.append(element("rect", rx=3, **box))
        middle = left + width // 2
        parts.append(element("text", str(count), x=middle, y=f"{top - 5:.1f}", class_="count"))
    parts.append(element("line", x1=20, x2=20 + NUM_BINS * width, y1=base, y2=base))
    for place in range(NUM_BINS + 1):
        tick = f"{100 * place // NUM_BINS}%"
        parts.append(element("text", tick, x=20 + place * width, y=base + 16))
    spoken = ", ".join(
        f"{count} from {100 * place // NUM_BINS}%" for place, count in enumerate(bins) if count
    )
    return element(
        "svg",
        *parts,
        class_="chart",
        viewBox=f"0 0 {NUM_BINS * width + 40} 200",
        role="img",
        aria_label=f"Distribution of scores: {spoken}",
    )


def _problems(data: Class) -> Html:
    """For each problem, everyone who has not solved all of it: wrong, or not begun."""
    found: list[tuple[float, int, str, float, float, float]] = []
    for place, problem in enumerate(data.problems):
        each = [p for result in data.results for p in result.problems if p.problem == problem]
        wrong = sum(p.failed > 0 for p in each) / len(each)
        unstarted = sum(p.failed == 0 and p.not_started > 0 for p in each) / len(each)
        mean = statistics.fmean(p.points for p in each)
        found.append((wrong + unstarted, place, problem, wrong, unstarted, mean))
    rows: list[Html] = []
    for _, _, problem, wrong, unstarted, mean in sorted(found, key=lambda row: (-row[0], row[1])):
        known = data.problems[problem]
        rows.append(
            element(
                "tr",
                element("td", _chooser("problem", data.index(problem), reading.title(known))),
                element("td", bar(wrong, "wrong", (unstarted, "open")), class_="wide"),
                element("td", f"{wrong:.0%}", class_="n"),
                element("td", f"{unstarted:.0%}", class_="n"),
                element("td", f"{mean:.1f} of {known.max_points:g}", class_="n drop"),
            )
        )
    heads = (
        ("Problem", ""),
        ("", ""),
        ("wrong", "n"),
        ("not started", "n"),
        ("mean points", "n drop"),
    )
    return table(heads, rows)


def _mistakes(data: Class) -> Html:
    if not data.mistakes:
        return element("p", "None of the known mistakes was made.", class_="soft")
    rows = [
        element(
            "tr",
            element("td", _chooser("mistake", str(place), mistake)),
            element(
                "td", reading.title(data.problems[problem]) if problem in data.problems else problem
            ),
            element("td", str(count), class_="n"),
        )
        for place, ((problem, mistake), count) in enumerate(data.mistakes[:12])
    ]
    return table((("Mistake", ""), ("Problem", ""), ("made by", "n")), rows)


def _is_forbidden(finding: Finding) -> bool:
    return finding.rule != reading.NEEDS_REVIEW


def _to_review(data: Class) -> Html:
    found = [
        (place, result, finding)
        for result in data.results
        for place, finding in enumerate(sorted(result.policy, key=_is_forbidden))
    ]
    if not found:
        return Html()
    # The first findings of each submission: none pushes out the others.
    shown = sorted(found, key=lambda entry: entry[0])[:MAX_FINDINGS]
    shown.sort(key=lambda entry: (_is_forbidden(entry[2]), natural_order(entry[1]), entry[0]))
    rows = [
        element(
            "tr",
            element(
                "td", element("a", one_line(result.submission), href=link(result, "instructor"))
            ),
            element("td", finding.rule),
            element("td", one_line(finding.problem)),
            element("td", element("code", one_line(finding.operator))),
            element("td", f"{one_line(finding.file)}, line {finding.line}"),
        )
        for _, result, finding in shown
    ]
    heads = [(text, "") for text in ("submission", "rule", "problem", "what", "where")]
    more = f"... and {len(found) - MAX_FINDINGS} more." if len(found) > MAX_FINDINGS else ""
    return join(
        element("h2", "Use of what the assignment asks to write"),
        table(heads, rows),
        element("p", more),
    )


def _chooser(menu: str, choice: str, text: str) -> Html:
    """A text that filters the table when it is clicked."""
    return element(
        "button", text, type="button", class_="plain", data_menu=menu, data_choice=choice
    )
