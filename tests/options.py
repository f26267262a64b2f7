"""The examination's options: a plugin, which pytest loads before it looks for tests.

pytest takes the value of an option that it does not know yet for a folder of tests. If these stood
in conftest.py, `--submission DIR` would run the conftest.py of DIR.
"""

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
        help="examine tests/adapters.py of another repository (after a path: pytest tests ...)",
    )
    group.addoption(
        "--problem",
        choices=list(report.RUBRIC),
        metavar="ID",
        help=f"examine one problem only: {', '.join(report.RUBRIC)}",
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
        default=Path(__file__).parents[2] / "shared" / "data" / "gpt2",
        help="where vocab.json and merges.txt of GPT-2 are (without them nothing needs them)",
    )
