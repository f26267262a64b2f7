"""JUnit XML, which continuous integration shows: a suite for each problem, a case for each item."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from cs_grader.result import Item, Problem, Result
from cs_grader.results import reading
from cs_grader.results.plain_text import one_line, plain
from cs_grader.results.reading import Reader


def junit_xml(result: Result) -> str:
    """Return the document; characters that XML does not allow are left out."""
    result = reading.as_seen_by(result, Reader.STUDENT)
    root = ET.Element("testsuites", name=one_line(result.submission))
    for problem in result.problems:
        items = [item for item in result.items if item.problem == problem.problem]
        _add_suite(root, problem, items)
    for total in ("tests", "failures", "errors"):
        root.set(total, str(sum(int(suite.get(total, 0)) for suite in root)))
    root.set("time", f"{result.seconds:.3f}")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _add_suite(root: ET.Element, problem: Problem, items: list[Item]) -> None:
    suite = ET.SubElement(root, "testsuite", name=reading.title(problem))
    _count(suite, problem, items)
    suite.set("time", f"{sum(item.seconds for item in items):.3f}")
    for item in items:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=one_line(item.item.partition("::")[0]),
            name=reading.name(item),
            time=f"{item.seconds:.3f}",
        )
        if item.outcome == "passed":
            continue
        text = reading.explanation(item)
        tag = "error" if item.outcome == "error" else "failure"
        ET.SubElement(case, tag, message=one_line(text), type=reading.kind(item)).text = plain(text)
    if problem.hidden:
        case = ET.SubElement(suite, "testcase", name="checks on hidden inputs")
        if problem.hidden_wrong:
            ET.SubElement(case, "failure", message=reading.hidden_count(problem))


def _count(element: ET.Element, problem: Problem, items: Sequence[Item]) -> None:
    """Set the totals; what was not started counts as a failure, since it earns nothing."""
    outcomes = [item.outcome for item in items]
    failed = outcomes.count("failed") + outcomes.count("not_started") + (problem.hidden_wrong > 0)
    element.set("tests", str(len(outcomes) + (problem.hidden > 0)))
    element.set("failures", str(failed))
    element.set("errors", str(outcomes.count("error")))
