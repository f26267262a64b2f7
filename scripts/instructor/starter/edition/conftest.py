"""This edition holds the answers to its public inputs only, and asks as the grader does.

Whatever the from-scratch rule forbids raises while a problem that has to be solved without it is
examined. Points here and in the grader then differ by hidden inputs only.
"""

import tomllib
from collections.abc import Generator
from pathlib import Path

import pytest

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
    """Forbids in each problem what it has to be solved without."""

    def __init__(self) -> None:
        self.problem = ""
        self.undo: Undo = lambda: None
        self.policy: Policy | None = None
        self.paid: set[str] = set()
        """Groups of operators that a problem was failed for."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """Forbid it before the first item of a problem."""
        marker = item.get_closest_marker("problem")
        if marker and marker.args[0] != self.problem:
            self.policy = self.policy or policy_of(ROOT)
            self.problem = marker.args[0]
            self.undo()
            # Who uses another problem's softmax does not pay for it: that problem does.
            excused = [group for group in self.paid if OWN[group] != self.problem]
            self.undo = forbid(self.problem, tell_nobody, excused)
        assert self.policy is not None, f"{item.nodeid} is of no problem"
        named = [one for one in self.policy.named if one.problem == self.problem]
        if packages := [one for one in named if not one.operator.startswith("torch.")]:
            raise refusal(packages[0])
        try:
            return (yield)
        except ForbiddenOperator as error:
            self.paid |= {group for group in (group_of(error.operator),) if group}
            # A class that an adapter returns is called from here: the source says where it is from.
            if named and "(conftest.py, " in str(error):
                error.args = refusal(named[0]).args
            raise


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
