"""What is the same for all submissions that are graded together."""

import dataclasses
import functools
import importlib.util
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cs_grader.outside.sandbox import Limits

NOT_ASKED = "not run: "
"""How the message of an item begins if its probe was not run any more."""
TIME_IS_UP = f"{NOT_ASKED}the time is up, "


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What is the same for all submissions that are graded together."""

    tests: Path
    """The folder of the examination; nothing of a submission is ever written there."""
    tier: str
    """How submissions are walled off: one of tiers.TIERS."""
    secret: str
    """What the hidden inputs are drawn from (hidden.py); "" if there are none."""
    problems: tuple[str, ...]
    """The problems to examine."""
    packages: tuple[str, ...] = ()
    """Folders of packages that submissions may import besides what is installed."""
    limits: Limits = dataclasses.field(default_factory=Limits)
    budget_s: float = 20 * 60
    """Seconds for one submission; what is not examined by then has failed."""


def time_is_up(budget_s: float) -> str:
    """Return the message of an item that was not examined because a submission's time is up."""
    return f"{TIME_IS_UP}{budget_s / 60:g} minutes for a submission"


def check_tests(tests: Path) -> None:
    """Check that a folder holds an examination that can judge any input.

    Raises:
        ValueError: It does not.
    """
    if not (tests / "rubric.toml").is_file():
        raise ValueError(f"--tests {tests}: there is no rubric.toml in it")
    if (tests / "stored.py").exists():
        raise ValueError(
            f"--tests {tests} is of a student edition, whose answers are stored and judge no other "
            "inputs: give the tests/ that make_starter.py --solution writes, or leave it out"
        )


def rubric_of(tests: Path) -> dict[str, dict[str, Any]]:
    """Read the problems, their points and their adapters."""
    return tomllib.loads((tests / "rubric.toml").read_text(encoding="utf-8"))


def trivial_items(tests: Path) -> frozenset[str]:
    """Read which items a trivial answer passes: they earn nothing by themselves."""
    file = tests / "trivial.toml"
    if not file.exists():
        return frozenset()
    return frozenset(tomllib.loads(file.read_text(encoding="utf-8"))["items"])


@functools.cache
def points_of(tests: Path) -> Callable[..., float]:
    """Load how an examination turns outcomes into points: the student's report does the same."""
    spec = importlib.util.spec_from_file_location("examination_points", tests / "points.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"{tests / 'points.py'}: not there")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.points
