"""How a result reads: what each of its readers may see of an item, and what to do next.

Hidden inputs would not stay hidden if students could read what their code was asked, or have the
code send it home in a message, a name or a time. `as_seen_by` takes all of that out, before
anything is written.
"""

import dataclasses
import enum
import functools
import math
import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from cs_grader.plain_text import one_line, plain
from cs_grader.result import Finding, Item, Problem, Result

RUBRIC = Path(__file__).parents[2] / "tests" / "rubric.toml"

NEEDS_REVIEW = "needs review"
KINDS = {
    "passed": "right",
    "failed": "wrong answer",
    "error": "error",
    "not_started": "not started",
}
ISOLATION = {
    "bubblewrap": "bubblewrap (namespaces of its own, no network)",
    "uid": "uid (another user, with limits and system call filter)",
    "process": "process (a process of its own and no more: trust it as far as its author)",
}


class Reader(enum.Enum):
    """Whom a page or a file is for."""

    STUDENT = "student"
    INSTRUCTOR = "instructor"


def as_seen_by(result: Result, reader: Reader) -> Result:
    """Return a result with all that its reader may see, which for an instructor is everything.

    Of items on hidden inputs a student sees how many of each problem were not passed, and nothing
    else: no name, no kind of failure, no time, no call. Findings that need review are taken out,
    too, and if there are hidden items so is what was printed.
    """
    if reader is Reader.INSTRUCTOR:
        return result
    items = tuple(item for item in result.items if not item.is_hidden)
    return dataclasses.replace(
        result,
        items=items,
        policy=tuple(f for f in result.policy if not f.is_hidden and f.rule != NEEDS_REVIEW),
        seconds=sum(item.seconds for item in items),
        secret="",
        output=result.output if len(items) == len(result.items) else "",
    )


def kind(item: Item) -> str:
    """Say in a few words how an item ended."""
    ending = KINDS.get(item.outcome, "error")
    if item.outcome != "error":
        return ending
    # "ValueError: ...", "crashed with SIGSEGV", "tests/adapters.py cannot be imported: ..."
    how = one_line(re.split(r"[:(\n]", item.message, maxsplit=1)[0], 60)
    return f"{ending}: {how}" if how else ending


def name(item: Item) -> str:
    """The name of the test and its parameters, without the file."""
    test = one_line(item.item.rpartition("::")[2] or item.item)
    return f"{test} (hidden inputs)" if item.is_hidden else test


def words(diagnosis: str) -> str:
    """A known mistake in words, such as "the weight is transposed"."""
    text = one_line(diagnosis)
    # A name that an instructor gave is words already.
    return text if " " in text else text.replace("-", " ").replace("_", " ")


def explanation(item: Item) -> str:
    """What is shown below the name of an item that is not right."""
    return plain(item.message).strip() or kind(item)


def hidden_count(problem: Problem) -> str:
    """Say how many checks on hidden inputs failed; "" if none did."""
    if not problem.hidden_wrong:
        return ""
    return f"{problem.hidden_wrong} of {problem.hidden} checks on hidden inputs were not passed."


def describe(finding: Finding) -> str:
    """One line such as "linear: torch.nn.functional.linear (model.py, line 12)"."""
    where = f"{one_line(finding.file)}, line {finding.line}"
    return f"{one_line(finding.problem)}: {one_line(finding.operator)} ({where})"


def wrong_items(result: Result, problem: str) -> list[Item]:
    """The items of a problem that are not right, those that say most first."""
    wrong = [item for item in result.items if item.problem == problem and item.outcome != "passed"]
    return sorted(wrong, key=lambda item: item.is_hidden)


def is_right(problem: Problem) -> bool:
    """Whether nothing of it failed or is left to do."""
    return problem.failed + problem.not_started == 0


def shown_points(points: float) -> str:
    """Points with one decimal, rounded down: only what has no failure shows all of its points."""
    return f"{math.floor(points * 10 + 1e-9) / 10:.1f}"


def title(problem: Problem) -> str:
    """What a problem is called."""
    return one_line(problem.title or problem.problem)


# --- what to do next ---


@dataclasses.dataclass(frozen=True, slots=True)
class NextStep:
    """What to do next, how to try it, and which problems wait for it."""

    task: str
    command: str
    waiting: str


def next_problem(result: Result) -> Problem | None:
    """The first problem to repair or, if none failed, to start, whose foundations are all right."""
    wrong = {problem.problem for problem in result.problems if not is_right(problem)}
    ready = [
        problem
        for problem in result.problems
        if problem.problem in wrong and not wrong & foundations(problem.problem)
    ]
    return next((problem for problem in ready if problem.failed), ready[0] if ready else None)


def foundations(problem: str) -> frozenset[str]:
    """Every problem that this one is built from, at any depth."""
    below: set[str] = set()
    waiting = [problem]
    while waiting:
        new = _needs().get(waiting.pop(), frozenset()) - below
        below |= new
        waiting += new
    return frozenset(below)


@functools.cache
def _needs() -> dict[str, frozenset[str]]:
    rubric = tomllib.loads(RUBRIC.read_text(encoding="utf-8"))
    return {problem: frozenset(entry["needs"]) for problem, entry in rubric.items()}


def next_step(result: Result) -> NextStep | None:
    """What to do next; None where nothing is left to do."""
    if result.note and not result.score:
        return NextStep(result.note, "make test", "")
    problem = next_problem(result)
    if problem is None:
        return None
    waiting = [
        title(other)
        for other in result.problems
        if not is_right(other) and problem.problem in foundations(other.problem)
    ]
    verb = "Repair" if problem.failed else "Start"
    task = f"{verb} {title(problem)} first."
    return NextStep(task, command_for(problem.problem), ", ".join(waiting))


def advice(result: Result) -> list[str]:
    """The next step in lines of text."""
    step = next_step(result)
    if step is None:
        return ["Nothing is left to do."] if result.problems else []
    lines = [step.task, f"Try it with: {step.command}"]
    if step.waiting:
        lines.append(f"It may explain what is wrong with: {step.waiting}.")
    return lines


def command_for(problem: str) -> str:
    """The command by which a student runs the items of a problem."""
    return f'make test ARGS="--problem {one_line(problem)}"'


def causes(items: Sequence[Item]) -> list[tuple[str, int]]:
    """Each known mistake behind failures and how many it explains, the most frequent first."""
    counts = Counter(words(item.diagnosis) for item in items if item.diagnosis)
    return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
