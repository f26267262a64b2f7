"""Plant faults in right code: is the faulty line named when the examination fails?

The faults, and how to add to them: tests/project/bank/plantings.py.
"""

import datetime
import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli import progress_printer, run

from cs_basics.run.atomic import write_atomically
from lab import ROOT
from lab.places import planted as plantings
from lab.places.planted import measure as measuring
from lab.places.planted import spoiled as spoiled_work

REPORT = Path(__file__).with_name("places.md")


def main(only: tuple[str, ...] = (), jobs: int = 2, show: bool = False, least: float = 0.7) -> None:
    """Plant each fault in turn, run its problem's items, and say whether its line was named.

    A run of all faults also spoils honest work, whose lines must not be accused, and writes
    lab/places/places.md.

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
    chosen = [
        planting
        for planting in plantings.load()
        if not only or any(text in planting.title for text in only)
    ]
    if not chosen:
        raise ValueError(f"no fault matches --only {' '.join(only)}")
    print_progress, count = progress_printer(), 0
    print_progress("faults", "plantings", 0, len(chosen))

    def on_result(_: object) -> None:
        nonlocal count
        count += 1
        print_progress("faults", "plantings", count, len(chosen))

    false, spoiled = (0, "") if only else accused_falsely(show)
    results = measuring.measure(chosen, jobs, on_result)
    for result in sorted(results, key=lambda result: result.planting.title):
        if show or not result.is_found:
            print(told(result), end="\n\n")
    for style in dict.fromkeys(result.planting.style for result in results):
        print(totals(style, [result for result in results if result.planting.style == style]))
    print(totals("together", results))
    if not only:
        print(spoiled)
        write_atomically(REPORT, markdown(results, spoiled).encode())
        print(f"written to {REPORT.relative_to(ROOT)}")
    if false or sum(result.is_found for result in results) < least * len(results):
        sys.exit(1)


def accused_falsely(show: bool) -> tuple[int, str]:
    """Spoil honest work from outside; count how often its lines are accused, and say so."""
    spoiled = list(spoiled_work.accusations())
    false = [one for one in spoiled if one.accused]
    for one in spoiled if show else false:
        print(f"== {one.title}: {one.accused or 'nothing of it accused'}\n{one.said}\n")
    found = sum(one.is_found for one in spoiled)
    return len(false), (
        f"in {len(spoiled)} further cases the implementation is right, and a wrapper around it "
        "spoils what goes in or comes out: a line of the implementation is blamed in "
        f"{len(false)} of them, the wrapper's line is named first in {found}"
    )


def markdown(results: Sequence[Any], spoiled: str) -> str:
    """Return the report, for lab/places/places.md."""
    today = datetime.datetime.now().astimezone().date().isoformat()
    rows = sorted({(r.planting.style, r.planting.problem) for r in results}, reverse=True)
    lines = [
        "# Which line is named",
        "",
        f"Written by `python -m lab.places` on {today}. Faults are planted, one at a time, in two",
        "whole implementations (`lab/places/planted/`); the failing item then says where to look.",
        "Found: the faulty line is among the first three named. Last: the faulty line made",
        "the output, which is where anyone would look first.",
        "",
        "For byte-pair encoding and the tokenizer no line is named, since right implementations",
        "hold different values on the way. The smallest text that fails is shown instead, with",
        "the fewest merges (`lab/places/texts.py`). Batches, checkpoints and initial weights",
        "have neither.",
        "",
        "| implementation | problem | faults | found | nothing said | last |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for style, problem in rows:
        some = [r for r in results if (r.planting.style, r.planting.problem) == (style, problem)]
        lines.append(f"| {style} | {problem} | {' | '.join(map(str, counts(some)))} |")
    lines += [f"| all | | {' | '.join(map(str, counts(results)))} |", "", "Not found:", ""]
    missed = [result.planting.title for result in results if not result.is_found]
    lines += [f"- {title}" for title in sorted(missed)]
    spoiled = spoiled[0].upper() + spoiled[1:]
    return "\n".join([*lines, "", *textwrap.wrap(f"{spoiled}.", 100), ""])


def counts(results: Sequence[Any]) -> tuple[int, int, int, int]:
    """Return how many faults there are, are found, have no line named, and are in the last line."""
    return (
        len(results),
        sum(result.is_found for result in results),
        sum(not result.named for result in results),
        sum(result.is_last for result in results),
    )


def told(result: Any) -> str:
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
    total, found, silent, last = counts(results)
    slowest = max(result.seconds for result in results)
    return (
        f"{what}: the line of {found} of {total} faults is among the first three named"
        f" ({found / total:.0%}), nothing is said of {silent}; the line that made the output is it"
        f" in {last} ({last / total:.0%}); at most {slowest:.2f} s"
    )


if __name__ == "__main__":
    run(main)
