"""This edition holds the answers to its public inputs only, and asks as the grader does.

Whatever the from-scratch rule forbids raises while a problem that has to be solved without it is
examined. Points here and in the grader then differ by hidden inputs only.
"""

import tomllib
from collections.abc import Collection, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from conventions import asked_by_the_handout

from cs_grader.result import Finding
from cs_grader.rules.check import Policy, check_source
from cs_grader.rules.names import group_of
from cs_grader.sandbox.blocked import ForbiddenOperator, Undo, forbid
from cs_grader.sandbox.forbidden import OWN

ROOT = Path(__file__).parent
NOT_HANDED_IN = (
    *("cs_grader", "scripts"),
    *(f"cs_basics/{folder}" for folder in ("interop", "run", "settings", "stories", "study")),
)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse another seed."""
    if config.getoption("--exam-seed", 0) != 0:
        msg = "--exam-seed: this edition has stored answers, and those for the public seed only"
        raise pytest.UsageError(msg)
    config.pluginmanager.register(FromScratch())


class FromScratch:
    """Forbids in each problem what it has to be solved without.

    An item that is stopped by the operator of another problem is asked once more with it. What
    that costs follows from all rows (tests/exam/points.py).
    """

    def __init__(self) -> None:
        self.policy: Policy | None = None
        self.allow: Undo = lambda: None
        self.forbidden: tuple[str, frozenset[str]] | None = None
        """The problem whose operators are forbidden, and the groups that it may call."""
        self.stopped: ForbiddenOperator | None = None
        """What stopped the last item."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run an item until it calls nothing that another problem has to be solved without."""
        problem = problem_of(item)
        lent: dict[str, str] = {}
        reports = self.run(item, nextitem, problem, lent)
        first = row_of(reports)
        while (group := self.group_lent(problem)) and group not in lent:
            lent[group] = OWN[group]
            row = row_of(self.run(item, nextitem, problem, lent))
            first |= {"borrowed": sorted({*lent.values()}), "with_borrowed": row["outcome"]}
        if first.get("outcome") == "failed":
            first |= asked_by_the_handout(
                first, lambda: row_of(self.run(item, nextitem, problem, lent))["outcome"]
            )
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def run(
        self, item: pytest.Item, nextitem: pytest.Item | None, problem: str, lent: Collection[str]
    ) -> list[pytest.TestReport]:
        """Run an item once, where it may call the operators that are lent."""
        self.stopped = None
        if self.forbidden != (problem, frozenset(lent)):
            self.allow()
            self.forbidden = problem, frozenset(lent)
            self.allow = forbid(problem, tell_nobody, lent)
        return runtestprotocol(item, nextitem=nextitem, log=False)

    def group_lent(self, problem: str) -> str | None:
        """The group of operators that has stopped the last item, if another problem's."""
        group = group_of(self.stopped.operator) if self.stopped else None
        return group if group and OWN[group] != problem else None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """Refuse packages, whatever they are called for; say where a class is from."""
        self.policy = self.policy or policy_of(ROOT)
        problem = problem_of(item)
        named = [one for one in self.policy.named if one.problem == problem]
        if packages := [one for one in named if not one.operator.startswith("torch.")]:
            raise refusal(packages[0])
        try:
            return (yield)
        except ForbiddenOperator as error:
            self.stopped = error
            # A class that an adapter returns is called from here: the source says where it is from.
            if named and "(conftest.py, " in str(error):
                error.args = refusal(named[0]).args
            raise


def problem_of(item: pytest.Item) -> str:
    """Name the problem that an item examines."""
    marker = item.get_closest_marker("problem")
    assert marker is not None, f"{item.nodeid} is of no problem"
    return marker.args[0]


def row_of(reports: Sequence[pytest.TestReport]) -> dict[str, Any]:
    """The row of the examination (tests/conftest.py) among an item's reports."""
    pairs: list[tuple[str, Any]] = [pair for report in reports for pair in report.user_properties]
    return next((row for name, row in pairs if name == "examination"), {})


def refusal(finding: Finding) -> ForbiddenOperator:
    """Return an exception that says what is found in the source."""
    return ForbiddenOperator(f"{finding.message} ({Path(finding.file).name}, line {finding.line})")


def tell_nobody(operator: str, file: str, line: int) -> None:
    """Leave it to the exception to say what was called."""


def policy_of(root: Path) -> Policy:
    """Read what is handed in."""
    rubric = tomllib.loads((root / "tests" / "rubric.toml").read_text(encoding="utf-8"))
    given = [root / place for place in NOT_HANDED_IN]
    paths = [
        path
        for top in root.iterdir()
        if not (top.name.startswith(".") or top.is_symlink())
        for path in ([top] if top.is_file() else top.rglob("*.py"))
        if path.suffix == ".py" and "site-packages" not in path.parts
        if not any(path.is_relative_to(place) for place in given)
    ]
    files = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8", errors="replace")
        for path in paths
    }
    return check_source(files, {name: entry["adapters"] for name, entry in rubric.items()})
