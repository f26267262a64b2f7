"""Try the examination on the fault bank: is each mistake caught and named, and honest work passed?

The bank, and how to add to it: tests/project/faults/__init__.py.
"""

import datetime
import importlib
import os
import sys
import time
from pathlib import Path
from typing import Any

from cli import progress_printer, run

from cs_basics.run.atomic import write_atomically
from lab import ROOT

REPORT = Path(__file__).with_suffix(".md")


def main(
    seeds: tuple[int, ...] = (0, 1, 2),
    only: tuple[str, ...] = (),
    problem: tuple[str, ...] = (),
    jobs: int = 2,
    show: bool = False,
) -> None:
    """Build each fault in turn, run its problem's items, and say what is caught and named.

    A run of the whole bank writes faults.md. The exit code is 1 if a fault is missed or a
    variant failed.

    Args:
        seeds: Seeds of the examination's inputs; the bank runs once for each.
        only: Cases whose "problem: name" contains one of these texts (none: all).
        problem: Problems to run (none: all).
        jobs: Processes at a time.
        show: Print what each fault is told.
    """
    if not hasattr(os, "fork"):
        raise OSError("each fault runs in a forked process, which this system does not have")
    if jobs < 1:
        raise ValueError(f"--jobs {jobs}: use at least 1")
    # Two pools of threads on the same cores would slow each other down.
    os.environ["OMP_NUM_THREADS"] = "1"
    bank, runner, report = _fault_bank()
    cases = bank.chosen(only, problem)
    if not cases:
        raise ValueError(f"no case matches --only {' '.join(only)} --problem {' '.join(problem)}")
    started = time.monotonic()
    results: list[Any] = []
    print_progress, total = progress_printer(), len(cases) * len(seeds)
    print_progress("faults", "cases", 0, total)

    def on_result(result: object) -> None:
        results.append(result)
        print_progress("faults", "cases", len(results), total)

    for seed in seeds:
        runner.examine(cases, seed, jobs, on_result)
    elapsed_s = time.monotonic() - started
    if show:
        print(report.told(results), end="\n\n")
    print(report.to_print(results, elapsed_s))
    if not only and not problem:
        today = datetime.datetime.now().astimezone().date().isoformat()
        write_atomically(REPORT, report.markdown(results, today, elapsed_s).encode())
        print(f"written to {REPORT.relative_to(ROOT)}")
    if not all(result.is_right for result in results):
        sys.exit(1)


def _fault_bank() -> tuple[Any, Any, Any]:
    """Import the bank and the adapters that it stands in for; both are tests, not a library."""
    names = ("faults.bank", "faults.run", "lab.campaigns.faults_report")
    bank, runner, report = map(importlib.import_module, names)
    return bank, runner, report


if __name__ == "__main__":
    run(main)
