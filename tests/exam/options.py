"""The examination's options: a plugin, which pytest loads before it looks for tests.

pytest takes the value of an option that it does not know yet for a folder of tests. If these stood
in conftest.py, `--submission DIR` would run the conftest.py of DIR.
"""

import argparse
import re
from pathlib import Path

import pytest
import report


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("examination")
    group.addoption(
        "--exam-seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of the examination's inputs (0 is the public one; any other must do as well)",
    )
    group.addoption(
        "--submission",
        type=Path,
        metavar="DIR",
        help="examine tests/adapters.py of another repository (bare pytest: --submission=DIR)",
    )
    group.addoption(
        "--problem",
        action="append",
        type=problem_called,
        metavar="ID",
        help=f"examine this problem only; may be repeated: {', '.join(report.RUBRIC)}",
    )
    group.addoption(
        "--exam-report",
        type=Path,
        metavar="FILE",
        help="write a row for each item as JSON",
    )
    group.addoption(
        "--exam-page",
        type=Path,
        metavar="FILE",
        help="write a page (HTML) with everything that failed, and why",
    )
    group.addoption(
        "--gpt2-files",
        type=Path,
        metavar="DIR",
        default=Path(__file__).parents[3] / "shared" / "data" / "gpt2",
        help="where vocab.json and merges.txt of GPT-2 are (without them nothing needs them)",
    )


def problem_called(name: str) -> str:
    """Find a problem by its id, or by words of its id, its title or its adapters, in any order."""
    titles = {problem: entry["title"].lower() for problem, entry in report.RUBRIC.items()}
    found = [problem for problem, title in titles.items() if name.lower() in (problem, title)]
    words = re.findall(r"[a-z0-9]+", name.lower())
    found = found or [
        problem
        for problem, entry in report.RUBRIC.items()
        if all(word in " ".join([problem, titles[problem], *entry["adapters"]]) for word in words)
    ]
    if len(found) != 1:
        msg = f"{name!r} is {'no problem' if not found else 'one of several'}: give one of "
        raise argparse.ArgumentTypeError(msg + ", ".join(found or report.RUBRIC))
    return found[0]
