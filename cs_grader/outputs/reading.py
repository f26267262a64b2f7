"""How a result reads: what each of its readers may see of an item, and what to do next.

Items on hidden inputs would be no longer hidden if whoever submitted read what they were asked, or
could send it home in a message. Of these a student sees the name, what kind of failure it is, and
the known mistake behind it; an instructor sees all.
"""

import builtins
import dataclasses
import enum
import functools
import math
import re
import signal
import tomllib
from collections.abc import Sequence
from pathlib import Path

from cs_grader.outputs.plain_text import OUTPUT_CHARS, one_line, plain
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

# The beginnings of messages that the grader itself writes. A submission chooses among them at
# most, and so has no way to write hidden inputs into the kind of its failure.
_SIGNALS = "|".join(known.name for known in signal.Signals)
_EXCEPTIONS = "|".join(
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
)
_KIND_OF_ERROR = re.compile(
    rf"crashed with (?:{_SIGNALS})\b|over \d{{1,4}} (?:s of CPU|[GM]B|processes)\b|exited\b"
    rf"|no answer(?: within \d{{1,4}} s)?\b|left during import\b"
    rf"|tests/adapters\.py cannot be imported\b|(?:{_EXCEPTIONS}|ForbiddenOperator)(?=:|$)"
)


class Reader(enum.Enum):
    """Whom a page or a file is for."""

    STUDENT = "student"
    INSTRUCTOR = "instructor"


def kind(item: Item) -> str:
    """Say in a few words how an item ended, in words of the grader alone."""
    ending = KINDS.get(item.outcome, "error")
    how = _KIND_OF_ERROR.match(item.message) if item.outcome == "error" else None
    return f"{ending}: {how[0]}" if how else ending


def name(item: Item) -> str:
    """The name of the test and its parameters, without the file."""
    test = one_line(item.item.rpartition("::")[2] or item.item)
    return f"{test} (hidden inputs)" if item.is_hidden else test


def diagnosis(item: Item) -> str:
    """The known mistake behind a failure in words, such as "the weight is transposed"."""
    return one_line((item.diagnosis or "").replace("-", " ").replace("_", " "))


def explanation(item: Item, reader: Reader) -> str:
    """What is shown below the name of an item that is not right."""
    if not item.is_hidden or reader is Reader.INSTRUCTOR:
        return plain(item.message).strip() or kind(item)
    cause = f"\nThis looks like: {diagnosis(item)}." if item.diagnosis else ""
    return f"{kind(item)}{cause}"


def output(result: Result, reader: Reader) -> str:
    """What the submission printed, unless hidden inputs could be in it."""
    if reader is Reader.STUDENT and any(item.is_hidden for item in result.items):
        return ""
    return plain(result.output, OUTPUT_CHARS).strip()


def findings(result: Result, reader: Reader) -> list[Finding]:
    """What was used against the rules; what a person has to look at is for the instructor."""
    return [
        finding
        for finding in result.policy
        if reader is Reader.INSTRUCTOR or finding.rule != NEEDS_REVIEW
    ]


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
    """The first problem to repair, or if none failed to start, whose foundations are all right."""
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
    return f"python -m pytest --problem {one_line(problem)}"


def most_common(diagnoses: Sequence[str]) -> list[tuple[str, int]]:
    """Each text with how often it occurs, the most frequent first, then by the alphabet."""
    counts = {text: diagnoses.count(text) for text in set(diagnoses)}
    return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
