"""Let the reference sit the examination with inputs drawn from many seeds: it must pass each.

A failure here would fail honest work in a grader, whose inputs nobody has seen before.
"""

import contextlib
import importlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from cli import progress_printer, run

from lab import ROOT


class OnlyDrawn:
    """Keeps the items whose inputs depend on the seed."""

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[Any]) -> None:
        """Deselect the others."""
        others = [item for item in items if "rng" not in item.fixturenames]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if "rng" in item.fixturenames]


def main(
    count: int = 50,
    first: int = 1,
    problem: str | None = None,
    drawn_only: bool = False,
    submission: Path = ROOT,
) -> None:
    """Sit the examination once for each seed; print the items that fail, and with which seed.

    The exit code is 1 if an item fails.

    Args:
        count: Number of seeds.
        first: The first seed; 0 gives the public inputs.
        problem: Sit this problem only, as `pytest --problem` names it.
        drawn_only: Leave out the items that draw nothing, which no seed changes.
        submission: The repository whose tests/adapters.py is examined.
    """
    if count < 1 or first < 0:
        raise ValueError(f"--count {count} --first {first}: use at least 1 seed, from 0 on")
    if not (submission / "tests" / "adapters.py").is_file():
        raise ValueError(f"--submission {submission}: there is no tests/adapters.py in it")
    if not hasattr(os, "fork"):
        raise OSError("each seed runs in a forked process, which this system does not have")
    for name in ("torch", "torch._dynamo", "numpy", "regex", "einops"):
        importlib.import_module(name)  # Once, and not again for each seed.
    print_progress = progress_printer()
    num_items = num_failed = 0
    print_progress("examining", "seeds", 0, count)
    for number, seed in enumerate(range(first, first + count), 1):
        rows = sit(seed, submission.absolute(), problem, drawn_only)
        num_items += len(rows)
        for row in rows:
            if row["outcome"] != "passed":
                num_failed += 1
                print(f"--exam-seed {seed}: {row['item']}\n{row['message']}", flush=True)
        print_progress("examining", "seeds", number, count)
    print(f"{count} seeds from {first} on: {num_failed} of {num_items} items failed")
    if num_failed:
        sys.exit(1)


def sit(seed: int, submission: Path, problem: str | None, drawn_only: bool) -> list[dict[str, Any]]:
    """Examine a submission in a process of its own; return a row for each item.

    Raises:
        ValueError: It did not run.
    """
    with tempfile.TemporaryDirectory() as folder:
        rows, said = Path(folder) / "rows.json", Path(folder) / "said"
        options = [
            *("-p", "no:xdist", "--quiet", f"--rootdir={ROOT}"),
            *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
            *(f"--exam-seed={seed}", f"--submission={submission}", f"--exam-report={rows}"),
            *([] if problem is None else [f"--problem={problem}"]),
            *map(str, sorted((ROOT / "tests").glob("test_*.py"))),
        ]
        pid = os.fork()
        if pid == 0:
            with said.open("w") as file, contextlib.redirect_stdout(file):
                os.chdir(ROOT)
                with contextlib.suppress(BaseException), contextlib.redirect_stderr(file):
                    pytest.main(options, plugins=[OnlyDrawn()] if drawn_only else [])
            os._exit(0)
        os.waitpid(pid, 0)
        if not rows.exists():
            raise ValueError(
                f"seed {seed}: the examination did not run: {said.read_text()[-2000:]}"
            )
        return json.loads(rows.read_text(encoding="utf-8"))


if __name__ == "__main__":
    run(main)
