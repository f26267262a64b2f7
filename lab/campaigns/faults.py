"""Try the examination on the bank: is each mistake caught and named, and right work passed?

The bank, and how to add to it: tests/project/bank/__init__.py.
"""

import datetime
import os
import sys
from collections.abc import Iterable
from pathlib import Path

# Before torch starts: two pools of threads on the same cores would slow each other down.
os.environ["OMP_NUM_THREADS"] = "1"

from bank.cases import chosen
from bank.run import examine
from bank.verdict import Result
from cli import progress_printer, run

from cs_basics.run.atomic import write_atomically

REPORT = Path(__file__).with_suffix(".md")
COLUMNS = (
    *("faults", "caught", "named rightly", "wrongly", "not", "variants", "accepted"),
    *("limits", "charged rightly"),
)
MOST_COMPLAINTS = 3
"""That a line has of a case: one broken limit can fail a hundred items."""
ABOUT = """# What the examination catches

Written by `python -m lab.campaigns.faults` on {today}, with seeds {seeds}.

A fault is a whole implementation with a mistake in it (`tests/project/bank/`). It is caught if an
item of its problem fails, and named rightly if a message names the mistake that the bank expects;
wrongly, if any message names another one. A variant is a correct implementation in another style;
all items must accept it. A limit is a correct one that stops at one difficulty; it is charged
rightly if the items of that claim alone fail and say so, for no more points than the bank allows.

{table}

{lists}
"""


def main(
    seeds: tuple[int, ...] = (0, 1, 2),
    only: tuple[str, ...] = (),
    problem: tuple[str, ...] = (),
    jobs: int = 2,
    show: bool = False,
) -> None:
    """Build each case in turn, run its problem's items, and say what is caught and named.

    A limit is tried on the problems built from its own as well. A run of the whole bank writes
    faults.md. The exit code is 1 if a fault is missed, a variant failed or a limit overcharged.

    Args:
        seeds: Seeds of the examination's inputs; the bank runs once for each.
        only: Cases whose "problem: name" contains one of these texts (none: all).
        problem: Problems to run (none: all).
        jobs: Processes at a time.
        show: Print what each fault is told.
    """
    cases = chosen(only, problem, ("faults", "honest", "limits"))
    if not cases:
        raise ValueError(f"no case matches --only {' '.join(only)} --problem {' '.join(problem)}")
    results: list[Result] = []
    print_progress, total = progress_printer(), len(cases) * len(seeds)

    def on_result(result: Result) -> None:
        results.append(result)
        print_progress("faults", "cases", len(results), total)

    for seed in seeds:
        examine(cases, seed, jobs, on_result)
    if show:
        print("\n\n".join(f"== {result.case.title} (seed {result.seed})\n{said(result)}"
                          for result in results))  # fmt: skip
    counted, lines = table(results), remarkable(results)
    print(counted, *lines, sep="\n")
    if not only and not problem:
        today, drawn = datetime.datetime.now().astimezone().date(), ", ".join(map(str, seeds))
        lists = "\n".join(lines)
        page = ABOUT.format(today=today, seeds=drawn, table=counted, lists=lists)
        write_atomically(REPORT, page.encode())
    if not all(result.is_right for result in results):
        sys.exit(1)


def table(results: list[Result]) -> str:
    """Return a table in Markdown: a row for each problem, and one for all."""
    lines = [f"| problem | {' | '.join(COLUMNS)} |", f"|---{'|--:' * len(COLUMNS)}|"]
    problems = dict.fromkeys(result.case.problem for result in results)
    for name in (*problems, "all"):
        cells = counts(result for result in results if name in (result.case.problem, "all"))
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def counts(results: Iterable[Result]) -> list[int]:
    """Count what the columns say."""
    of_kind = dict[str, list[Result]](faults=[], honest=[], limits=[])
    for result in results:
        of_kind[result.case.kind].append(result)
    faults, *others = of_kind.values()
    named = [result.naming for result in faults if result.is_right]
    of_faults = [len(faults), len(named), *map(named.count, ("rightly", "wrongly", "not"))]
    return [*of_faults, *(n for some in others for n in (len(some), sum(r.is_right for r in some)))]


def remarkable(results: list[Result]) -> list[str]:
    """Return a line for each case that came out otherwise than the bank expects."""
    lines: list[str] = []
    for result in results:
        if not result.is_right:
            said_of = {"faults": "missed", "honest": "variant failed"}
            what = said_of.get(result.case.kind) or "; ".join(result.complaints[:MOST_COMPLAINTS])
        elif result.case.is_fault and result.case.diagnosis and result.naming != "rightly":
            what = f"named {result.naming}"
        else:
            continue
        first = " ".join(said(result).split())[:200]
        lines.append(f"- **{result.case.title}** (seed {result.seed}): {what}: {first}")
    return lines


def said(result: Result) -> str:
    """Return what a case was told."""
    return result.error or "\n".join(f["message"] for f in result.failures) or "all items passed"


if __name__ == "__main__":
    run(main)
