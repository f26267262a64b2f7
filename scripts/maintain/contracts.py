"""Draw contracts and try each on two references: its own, and that of the usual contract.

A contract is a choice of conventions (tests/contract.py). Its own reference must get every point;
the usual one must fail the problems whose conventions changed, no others, and be told why.
"""

import dataclasses
import functools
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts" / "instructor"), str(ROOT / "tests")]

from cli import run
from starter.contracted import contract, write_contracted  # pyright: ignore[reportMissingImports]

report: Any = importlib.import_module("report")

NAMED = "the-code-solves-another-contract"
"""The diagnosis of a solution of another contract."""


BRIEF = [
    f"tests/test_{name}.py"
    for name in (
        "adamw", "checkpointing", "devices", "initialisation", "layers", "long_sequences",
        "multihead", "norm_eps", "other_dtypes", "repeated_calls", "rmsnorm", "rope", "train_bpe",
        "transformer",
    )
]  # fmt: skip


def main(
    count: int = 20, seed: int = 0, jobs: int = 1, brief: bool = False, show: bool = False
) -> None:
    """Draw contracts; let two references sit the whole examination of each.

    The exit code is 1 if the reference of a contract loses a point, or the reference of the usual
    contract fails another problem than those that were changed, or is not told why.

    Args:
        count: Contracts to try.
        seed: Decides which contracts are drawn.
        jobs: Contracts at a time.
        brief: Leave out the test files that depend on no convention.
        show: Print what the usual reference is told.
    """
    if count < 1 or jobs < 1:
        raise ValueError(f"--count {count} --jobs {jobs}: use at least 1")
    started = time.monotonic()
    rng = random.Random(seed)
    wanted = [drawn(rng) for _ in range(count)]
    with ThreadPoolExecutor(jobs) as pool:
        trials = []
        tests = BRIEF if brief else ("tests",)
        for trial in pool.map(functools.partial(attempt, tests=tests), wanted):
            trials.append(trial)
            print(f"{len(trials):3} {trial}", flush=True)
            if show:
                print("\n".join(trial.told), flush=True)
    right = sum(trial.is_right for trial in trials)
    print(f"{right} of {count} contracts as they should be, in {time.monotonic() - started:.0f} s")
    if right < count:
        sys.exit(1)


def drawn(rng: random.Random) -> Any:  # noqa: ANN401  tests/ has no types here
    """Draw a contract in which at least one convention is not the usual one."""
    while True:
        options = {name: rng.choice(list(options)) for name, options in contract.OPTIONS.items()}
        if (found := contract.Contract(**options)).changed():
            return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """How two references did under a contract."""

    changed: list[str]
    """The conventions that are not the usual ones."""
    points: float
    """Points of the contract's own reference."""
    possible: int
    """The most points that it could get: 100, if it sat the whole examination."""
    lost: list[str]
    """Items that its own reference failed."""
    failed: set[str]
    """Problems of which the usual reference failed an item."""
    touched: set[str]
    """Problems that the usual reference should fail, since their conventions changed."""
    named: set[str]
    """Problems for which it was told that it solves another contract."""
    told: list[str]
    """The messages that told it so, one for each problem."""

    @property
    def is_right(self) -> bool:
        """Whether both references did as they should."""
        return not self.lost and self.failed == self.named == self.touched

    def __str__(self) -> str:
        text = (
            f"{self.points:g} of {self.possible}; the usual one fails {len(self.failed)} problems"
        )
        for what, others in (
            ("fails for no reason", self.failed - self.touched),
            ("passes", self.touched - self.failed),
            ("is not told of", self.touched & self.failed - self.named),
        ):
            text += f"; {what}: {', '.join(sorted(others))}" if others else ""
        return f"{'ok   ' if self.is_right else 'WRONG'} {text} ({', '.join(self.changed)})"


def attempt(wanted: Any, tests: Sequence[str] = ("tests",)) -> Trial:  # noqa: ANN401
    """Let the reference of a contract sit its examination, and then the usual one.

    Args:
        wanted: The contract.
        tests: Files or folders of the examination, as pytest takes them.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "contracted"
        write_contracted(folder, wanted)
        own = sit(folder, tests)
        usual = sit(folder, [*tests, f"--submission={ROOT}"])
    counts = report.count(own)
    earned = sum(report.points_of(problem, own) for problem in counts)
    told = {row["problem"]: row["message"] for row in usual if row["diagnosis"] == NAMED}
    return Trial(
        changed=wanted.changed(),
        points=earned,
        possible=sum(report.RUBRIC[problem]["points"] for problem in counts),
        lost=[row["item"] for row in own if row["outcome"] != "passed"],
        failed={row["problem"] for row in usual if row["outcome"] != "passed"},
        touched=touched(wanted),
        named=set(told),
        told=[f"{problem}: {message}" for problem, message in told.items()],
    )


def touched(wanted: Any) -> set[str]:  # noqa: ANN401
    """Name the problems that a solution of the usual contract fails."""
    return {problem for name in wanted.changed() for problem in contract.PROBLEMS[name]}


def sit(folder: Path, arguments: Sequence[str]) -> list[dict[str, Any]]:
    """Run the examination of a folder; return a row for each item.

    Raises:
        ValueError: It did not run.
    """
    rows = folder / "report.json"
    rows.unlink(missing_ok=True)
    options = ["-p", "no:xdist", "--quiet", "--exam-report", str(rows)]
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if not rows.exists():
        raise ValueError(f"the examination did not run: {finished.stdout[-2000:]}{finished.stderr}")
    return json.loads(rows.read_text(encoding="utf-8"))


if __name__ == "__main__":
    run(main)
