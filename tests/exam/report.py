"""What became of each problem: rows for a report, a table for a terminal, what to do next."""

import json
import os
import re
import tempfile
import textwrap
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compare import id_of
from points import MAIN, claim_of, points_of_all

Row = Mapping[str, Any]

RUBRIC_FILE = Path(__file__).parents[1] / "rubric.toml"
RUBRIC: dict[str, dict[str, Any]] = tomllib.loads(RUBRIC_FILE.read_text(encoding="utf-8"))

# Items that a trivial answer passes, such as zeros: they earn nothing by themselves.
TRIVIAL = frozenset(
    tomllib.loads(RUBRIC_FILE.with_name("trivial.toml").read_text(encoding="utf-8"))["items"]
)

# What compare.report says of a known mistake.
SENTENCE = re.compile(r"This is what comes out when (.*)")
# What failure.message says of an exception: its class, its text, the line.
RAISED = re.compile(r"(\w+): .*?\(([^()]+, line \d+)\)", re.DOTALL)

# What a check says that met a forbidden operator.
FORBIDDEN = re.compile(r"(\S+) is not allowed [^()]*\((.+?), line (\d+)\)")


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """Write the rows as JSON."""
    write_file(json.dumps(rows, indent=1) + "\n", path)


def write_file(text: str, path: Path) -> None:
    """Write a file that appears whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(temporary).chmod(0o644)
    Path(temporary).replace(path)


def count(rows: Sequence[Row]) -> dict[str, Counter[str]]:
    """Count the outcomes of every problem that has any, in the order of the rubric."""
    counts: dict[str, Counter[str]] = {problem: Counter() for problem in RUBRIC}
    for row in rows:
        counts[row["problem"]][row["outcome"]] += 1
    return {problem: counter for problem, counter in counts.items() if counter}


def points_of(rows: Sequence[Row]) -> dict[str, float]:
    """What each problem has earned, in the order of the rubric."""
    return points_of_all(RUBRIC, rows, TRIVIAL)


def causes_of(problem: str, rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Sort a problem's failures by what one mistake may have caused, the largest group first.

    Failures with the same diagnosis have one cause, and so have exceptions from the same line; of
    the others, those of the same claim may have one.
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if row["problem"] == problem and row["outcome"] in ("failed", "error"):
            groups.setdefault(named(row) or unnamed(problem, row), []).append(row)
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def named(row: Row) -> str:
    """Return the diagnosis as the message words it, or its id if the message has other words."""
    if not row["diagnosis"]:
        return ""
    told = (sentence.removesuffix(".") for sentence in SENTENCE.findall(row["message"]))
    causes = (cause for sentence in told for cause in sentence.split(", or when "))
    own = (cause for cause in causes if id_of(cause) == row["diagnosis"])
    return re.split(r"[:;] ", next(own, row["diagnosis"].replace("-", " ")))[0]


def unnamed(problem: str, row: Row) -> str:
    """Say what is known of a failure that no known mistake explains."""
    if row["outcome"] == "error":
        raised = RAISED.match(row["message"])
        first = row["message"].partition("\n")[0]
        return " from ".join(raised.groups()) if raised else textwrap.shorten(first, WIDTH - 10)
    claim = claim_of(RUBRIC[problem], row["item"])
    return "no known mistake" + (f" (checks of {claim})" if claim != MAIN else "")


Line = tuple[str, str]


def table(rows: Sequence[Row], is_own: bool = True) -> list[Line]:
    """Lines of at most 80 columns, each with its colour.

    Args:
        rows: What became of the items.
        is_own: Whether the repository is one that docs/learn.md speaks of.
    """
    counts = count(rows)
    earned_by = points_of(rows)
    header = f"{'':<34}{'passed':>8}{'failed':>8}{'not started':>13}{'points':>12}"
    lines = [(header, "bold")]
    for problem, counter in counts.items():
        earned = earned_by[problem]
        colour = "green" if counter["passed"] == counter.total() else "red"
        if counter["not_started"] == counter.total():
            colour = ""
        lines.append(
            (line_of(RUBRIC[problem]["title"], counter, earned, RUBRIC[problem]["points"]), colour)
        )
        lines += [(f"    forbidden: {what}", "red") for what in forbidden_in(problem, rows)]
    earned = sum(earned_by.values())
    possible = sum(RUBRIC[problem]["points"] for problem in counts)
    lines.append((line_of("Together", sum(counts.values(), Counter()), earned, possible), "bold"))
    lines += [(CHARGED_ONCE, "")] * any(row.get("borrowed") for row in rows)
    lines += [(MISSED_ONCE, "")] * any(row.get("missed") for row in rows)
    return [*lines, ("", ""), *((line, "") for line in advice(rows, is_own))]


CHARGED_ONCE = "A forbidden operator costs at most what its own problem has earned, however often."

MISSED_ONCE = "A rule of this class that was missed costs a third of its problem, however often."


def forbidden_in(problem: str, rows: Sequence[Row]) -> list[str]:
    """List the forbidden operators that a problem's checks met, each with its place."""
    messages = [
        row["message"]
        for row in rows
        if row["problem"] == problem and row.get("diagnosis") == "forbidden-operator"
    ]
    found = dict.fromkeys(match.groups() for match in map(FORBIDDEN.search, messages) if match)
    return [
        f"{operator.replace('torch.nn.functional', 'F')} in {file}:{line}"
        for operator, file, line in found
    ]


MOST_CAUSES = 4
MOST_LINES = 22
WIDTH = 110


def first_failures(rows: Sequence[Row]) -> list[str]:
    """Say why the problem to repair next failed, by cause, and show its first message."""
    following = to_repair(rows)
    if following is None:
        return []
    causes = causes_of(following, rows)
    number = sum(len(failures) for _, failures in causes)
    title = RUBRIC[following]["title"]
    lost = missing(rows)[following]
    lost = f"{lost:.1f} points are missing" if lost > 0.05 else "hardly a point is missing"
    lines = ["", f"{title}: {plural(number, 'failure')}, {plural(len(causes), 'group')}; {lost}"]
    lines += [f"  {len(found):>4} x {cause}{also(cause, found, rows)}" for cause, found in causes][
        :MOST_CAUSES
    ]
    lines += [f"       and {len(causes) - MOST_CAUSES} more"] * (len(causes) > MOST_CAUSES)
    failure = most_telling([row for _, rows in causes for row in rows])
    message = failure["message"].splitlines()
    shown = [part for line in message for part in wrapped(line)]
    lines += [failure["item"], *shown[:MOST_LINES]]
    lines += ["  ..."] * (len(shown) > MOST_LINES)
    together = sum(row["outcome"] in ("failed", "error") for row in rows)
    return [*lines, f"All {together} in full: add -v, or --exam-page=FILE for a page of them."]


def also(cause: str, failures: Sequence[Row], rows: Sequence[Row]) -> str:
    """Count the failures of other problems that one line of the submission raised, too."""
    if failures[0]["outcome"] != "error":
        return ""
    others = {row["problem"] for row in rows} - {failures[0]["problem"]}
    groups = [dict(causes_of(problem, rows)).get(cause, []) for problem in others]
    number, problems = sum(map(len, groups)), sum(map(bool, groups))
    return f" (and {number} in {plural(problems, 'other problem')})" if number else ""


def most_telling(failures: Sequence[Row]) -> Row:
    """Choose the failure to show, given the largest group first: one that says more than values.

    That is a diagnosis, or else an exception; if there is none, one of the main claim.
    """

    def rank(row: Row) -> tuple[bool, bool, bool]:
        is_main = claim_of(RUBRIC[row["problem"]], row["item"]) == MAIN
        return not row["diagnosis"], row["outcome"] != "error", not is_main

    return min(failures, key=rank)


def wrapped(line: str) -> list[str]:
    """Wrap a line of a message into lines that a terminal does not break."""
    indent = "  " + line[: len(line) - len(line.lstrip())]
    how = {"initial_indent": indent, "subsequent_indent": f"{indent}    "}
    return textwrap.wrap(line.strip(), WIDTH, break_on_hyphens=False, **how) or [""]


def plural(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)


def line_of(title: str, counter: Counter[str], earned: float, possible: float) -> str:
    failed = counter["failed"] + counter["error"]
    numbers = (counter["passed"], failed, counter["not_started"])
    cells = [str(number) if number else "." for number in numbers]
    return f"{title:<34}{cells[0]:>8}{cells[1]:>8}{cells[2]:>13}{shown(earned):>7} of {possible}"


def shown(earned: float) -> str:
    """Round points down: only a problem without a failure shows all of its points."""
    return f"{int(earned * 10 + 1e-9) / 10:.1f}"


def advice(rows: Sequence[Row], is_own: bool = True) -> list[str]:
    """Say what to do next: first what is broken, and of that what earns most for least."""
    counts = count(rows)
    for verb, following in (("Repair", to_repair(rows)), ("Start", to_start(counts))):
        if following is None:
            continue
        title = RUBRIC[following]["title"]
        lines = [f"{verb} next: {title}"]
        if verb == "Start" and is_own:
            lines[0] += f": write {to_write(following)} (docs/learn.md, {title})"
        if len(counts) > 1:  # Otherwise it is what was just typed.
            lines.append(f'Then: make test ARGS="--problem {following}"')
        state = is_broken if verb == "Repair" else is_untouched
        waiting = [p for p in counts if state(counts[p]) and following in foundations(p)]
        is_much = missing(rows)[following] > EXPLAINS * RUBRIC[following]["points"]
        if waiting and (verb == "Start" or is_much):
            titles = ", ".join(RUBRIC[problem]["title"] for problem in waiting[:2])
            more = f" and {len(waiting) - 2} more" if len(waiting) > 2 else ""
            lines.append(f"It may explain: {titles}{more}.")
        return lines
    if len(counts) < len(RUBRIC):
        return ["All that was examined is right. What comes next: make test"]
    return ["Nothing is left to do. (make rules reads your code for what is forbidden.)"]


def to_write(problem: str) -> str:
    """Name the definitions, such as "Linear in cs_basics/layers.py"."""
    parts = [definition.split(".") for definition in RUBRIC[problem]["write"]]
    return f"{' and '.join(name for _, name in parts)} in cs_basics/{parts[0][0]}.py"


EXPLAINS = 1 / 3
"""A problem of which less is missing is hardly why others fail that are built from it."""


def to_repair(rows: Sequence[Row]) -> str | None:
    """The broken problem that may earn most for each cause of its failures.

    As much as a problem is broken, what is built from it may be broken for that reason, and is
    worth that much less by itself.
    """
    broken = [problem for problem, counter in count(rows).items() if is_broken(counter)]
    lost = missing(rows)
    shares = {problem: lost[problem] / RUBRIC[problem]["points"] for problem in broken}

    def worth(problem: str) -> float:
        below = max((shares[p] for p in foundations(problem) & set(broken)), default=0.0)
        above = sum(lost[p] for p in broken if problem in foundations(p))
        gain = lost[problem] * (1 - below) + shares[problem] * above
        return gain / len(causes_of(problem, rows))

    return max(broken, key=worth, default=None)


def missing(rows: Sequence[Row]) -> dict[str, float]:
    return {name: RUBRIC[name]["points"] - earned for name, earned in points_of(rows).items()}


def to_start(counts: Mapping[str, Counter[str]]) -> str | None:
    """The smallest problem that is not started, of those whose foundations are."""
    those = [problem for problem in counts if is_untouched(counts[problem])]
    ready = [problem for problem in those if not foundations(problem) & set(those)]
    return min(ready, key=lambda problem: RUBRIC[problem]["points"], default=None)


def is_broken(counter: Counter[str]) -> bool:
    return counter["failed"] + counter["error"] > 0


def is_untouched(counter: Counter[str]) -> bool:
    return counter["not_started"] > 0


def foundations(problem: str) -> set[str]:
    """Every problem that this one is built from, at any depth."""
    below = set(RUBRIC[problem]["needs"])
    return below.union(*map(foundations, below))
