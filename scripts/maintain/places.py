"""Plant faults in right code: is the faulty line named when the examination fails?

The faults, and how to add to them: tests/project/planted/plantings.py.
"""

import importlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # for cli.py

from cli import progress_printer, run

from cs_basics.run.progress import Progress

ROOT = Path(__file__).parents[2]


def main(only: tuple[str, ...] = (), jobs: int = 2, show: bool = False, least: float = 0.7) -> None:
    """Plant each fault in turn, run its problem's items, and say whether its line was named.

    Args:
        only: Faults whose "style, problem: name" contains one of these texts (none: all).
        jobs: Processes at a time.
        show: Print what is said about each fault.
        least: Share of the faults whose line has to be among the first three named; below it the
            exit code is 1.
    """
    if not hasattr(os, "fork"):
        raise OSError("each fault runs in a forked process, which this system does not have")
    if jobs < 1:
        raise ValueError(f"--jobs {jobs}: use at least 1")
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.path[:0] = [str(ROOT / "tests" / "project"), str(ROOT / "tests")]
    plantings = importlib.import_module("planted.plantings")
    measuring = importlib.import_module("planted.measure")
    chosen = [
        planting
        for planting in plantings.load()
        if not only or any(text in planting.title for text in only)
    ]
    if not chosen:
        raise ValueError(f"no fault matches --only {' '.join(only)}")
    started = time.monotonic()
    print_progress = progress_printer()
    count = 0

    def on_result(_: object) -> None:
        nonlocal count
        count += 1
        elapsed_s = time.monotonic() - started
        print_progress(Progress("faults", "plantings", count, len(chosen), elapsed_s))

    false = 0 if only else accused_falsely(show)
    results = measuring.measure(chosen, jobs, on_result)
    for result in sorted(results, key=lambda result: result.planting.title):
        if show or not result.is_found:
            print(told(result), end="\n\n")
    for style in dict.fromkeys(result.planting.style for result in results):
        print(totals(style, [result for result in results if result.planting.style == style]))
    print(totals("together", results))
    if false or sum(result.is_found for result in results) < least * len(results):
        sys.exit(1)


def accused_falsely(show: bool) -> int:
    """Spoil honest work from outside; say which of its lines are accused, and count them."""
    spoiled = list(importlib.import_module("planted.spoiled").accusations())
    false = [one for one in spoiled if one.accused]
    for one in spoiled if show else false:
        print(f"== {one.title}: {one.accused or 'nothing of it accused'}\n{one.said}\n")
    found = sum(one.is_found for one in spoiled)
    print(
        f"honest work spoiled from outside: {len(spoiled)} times, {len(false)} times one of its"
        f" lines is accused; {found} times the spoiling line is named first"
    )
    return len(false)


def told(result: Any) -> str:  # noqa: ANN401
    """Return what was said about a fault."""
    verdict = "found" if result.is_found else "NOT FOUND"
    lines = ", ".join(f"{file} line {line}" for file, line in result.named[:3])
    return (
        f"== {result.planting.title}: {verdict} ({result.seconds:.2f} s)\n"
        f"planted: {result.planting.wrong.strip()}\nnamed: {lines}\n"
        f"{result.error or result.said or 'nothing was said'}"
    )


def totals(what: str, results: Sequence[Any]) -> str:
    """Count what was found."""
    total = len(results)
    found = sum(result.is_found for result in results)
    silent = sum(not result.named for result in results)
    last = sum(result.is_last for result in results)
    slowest = max(result.seconds for result in results)
    return (
        f"{what}: the line of {found} of {total} faults is among the first three named"
        f" ({found / total:.0%}), nothing is said of {silent}; the line that made the output is it"
        f" in {last} ({last / total:.0%}); at most {slowest:.2f} s"
    )


if __name__ == "__main__":
    run(main)
