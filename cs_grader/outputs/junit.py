"""JUnit XML, which continuous integration shows: a suite for each problem, a case for each item."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from cs_grader.outputs import reading
from cs_grader.outputs.plain_text import one_line, plain
from cs_grader.outputs.reading import Reader
from cs_grader.result import Item, Problem, Result


def junit_xml(result: Result) -> str:
    """Return the document; characters that XML does not allow are left out."""
    root = ET.Element("testsuites", name=one_line(result.submission))
    for problem in result.problems:
        items = [item for item in result.items if item.problem == problem.problem]
        _add_suite(root, problem, items)
    _count(root, result.items)
    root.set("time", f"{result.seconds:.3f}")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _add_suite(root: ET.Element, problem: Problem, items: list[Item]) -> None:
    suite = ET.SubElement(root, "testsuite", name=reading.title(problem))
    _count(suite, items)
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
        text = reading.explanation(item, Reader.STUDENT)
        tag = "error" if item.outcome == "error" else "failure"
        ET.SubElement(case, tag, message=one_line(text), type=reading.kind(item)).text = plain(text)


def _count(element: ET.Element, items: Sequence[Item]) -> None:
    """Set the totals; what was not started counts as a failure, since it earns nothing."""
    outcomes = [item.outcome for item in items]
    element.set("tests", str(len(outcomes)))
    element.set("failures", str(outcomes.count("failed") + outcomes.count("not_started")))
    element.set("errors", str(outcomes.count("error")))
