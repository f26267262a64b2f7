"""What became of each problem: rows for a report, a table for a terminal, what to do next."""

import json
import os
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]

RUBRIC_FILE = Path(__file__).with_name("rubric.toml")
RUBRIC: dict[str, dict[str, Any]] = tomllib.loads(RUBRIC_FILE.read_text(encoding="utf-8"))

# Items that a trivial answer passes, such as zeros: they earn nothing by themselves.
TRIVIAL = frozenset(
    tomllib.loads(RUBRIC_FILE.with_name("trivial.toml").read_text(encoding="utf-8"))["items"]
)

OUTCOMES = ("passed", "failed", "error", "not_started")


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """Write the rows as JSON; whoever reads the file never sees half of it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=1)
        file.write("\n")
    Path(temporary).chmod(0o644)
    Path(temporary).replace(path)


def count(rows: Sequence[Row]) -> dict[str, Counter[str]]:
    """Count the outcomes of every problem that has any, in the order of the rubric."""
    counts: dict[str, Counter[str]] = {problem: Counter() for problem in RUBRIC}
    for row in rows:
        counts[row["problem"]][row["outcome"]] += 1
    return {problem: counter for problem, counter in counts.items() if counter}


def points(problem: str, counter: Counter[str], solved: Collection[str]) -> float:
    if problem not in solved:
        return 0.0
    return RUBRIC[problem]["points"] * counter["passed"] / counter.total()


def solved_problems(rows: Sequence[Row]) -> set[str]:
    """The problems of which an item is passed that no trivial answer passes."""
    passed = [row for row in rows if row["outcome"] == "passed"]
    return {row["problem"] for row in passed if row["item"] not in TRIVIAL}


Line = tuple[str, str]


def table(rows: Sequence[Row]) -> list[Line]:
    """Lines of at most 80 columns, each with its colour."""
    counts, solved = count(rows), solved_problems(rows)
    header = f"{'':<34}{'passed':>8}{'failed':>8}{'not started':>13}{'points':>12}"
    lines = [(header, "bold")]
    for problem, counter in counts.items():
        earned = points(problem, counter, solved)
        colour = "green" if counter["passed"] == counter.total() else "red"
        if counter["not_started"] == counter.total():
            colour = ""
        lines.append(
            (line_of(RUBRIC[problem]["title"], counter, earned, RUBRIC[problem]["points"]), colour)
        )
    earned = sum(points(problem, counter, solved) for problem, counter in counts.items())
    possible = sum(RUBRIC[problem]["points"] for problem in counts)
    lines.append((line_of("Together", sum(counts.values(), Counter()), earned, possible), "bold"))
    return [*lines, ("", ""), *((line, "") for line in advice(counts))]


def line_of(title: str, counter: Counter[str], earned: float, possible: float) -> str:
    failed = counter["failed"] + counter["error"]
    numbers = (counter["passed"], failed, counter["not_started"])
    cells = [str(number) if number else "." for number in numbers]
    # Rounded down: only a problem without a failure shows all of its points.
    shown = int(earned * 10 + 1e-9) / 10
    return f"{title:<34}{cells[0]:>8}{cells[1]:>8}{cells[2]:>13}{shown:>7.1f} of {possible}"


def advice(counts: Mapping[str, Counter[str]]) -> list[str]:
    """Say what to do next: first what is broken, and of that what others are built from."""

    def broken(problem: str) -> bool:
        counter = counts.get(problem, Counter())
        return counter["failed"] + counter["error"] > 0

    def untouched(problem: str) -> bool:
        return counts.get(problem, Counter())["not_started"] > 0

    for state, verb in ((broken, "Repair"), (untouched, "Start")):
        following = first(counts, state)
        if following is None:
            continue
        command = f"python -m pytest --problem {following}"
        lines = [f"{verb} next: {RUBRIC[following]['title']}  ({command})"]
        waiting = [p for p in counts if state(p) and following in foundations(p)]
        if waiting:
            titles = ", ".join(RUBRIC[problem]["title"] for problem in waiting[:2])
            more = f" and {len(waiting) - 2} more" if len(waiting) > 2 else ""
            lines.append(f"It may explain: {titles}{more}.")
        return lines
    return ["Nothing is left to do."]


def first(counts: Mapping[str, Counter[str]], state: Callable[[str], bool]) -> str | None:
    """The first problem in this state whose foundations are not in it."""
    candidates = [p for p in counts if state(p) and not any(map(state, foundations(p)))]
    return candidates[0] if candidates else None


def foundations(problem: str) -> set[str]:
    """Every problem that this one is built from, at any depth."""
    below = set(RUBRIC[problem]["needs"])
    return below.union(*map(foundations, below))
