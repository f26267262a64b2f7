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
from cs_grader.result import Adjustment, Finding, Item, Problem, Result

RUBRIC = Path(__file__).parents[2] / "tests" / "rubric.toml"

NEEDS_REVIEW = "needs review"
TOO_LONG = "error: over "
"""How the kind of an item begins that used up its seconds."""
KINDS = {
    "passed": "right",
    "failed": "wrong answer",
    "error": "error",
    "not_started": "not started",
}
A_LOOP = (
    "An endless loop looks like this. After two of these, every other check of the problem has two"
    " seconds."
)
ISOLATION = {
    "bubblewrap": "bubblewrap (separate namespaces, no network)",
    "uid": "uid (a separate user, limits, a filter of system calls)",
    "process": "process (hardly a sandbox: trust the score as far as its author)",
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
    return one_line(diagnosis).replace("-", " ").replace("_", " ")


def explanation(item: Item) -> str:
    """What is shown below the name of an item that is not right."""
    said = plain(item.message).strip() or kind(item)
    return f"{said}\n{A_LOOP}" if kind(item).startswith(TOO_LONG) else said


def hidden_count(problem: Problem) -> str:
    """Say how many checks on hidden inputs failed; "" if none did."""
    if not problem.hidden_wrong:
        return ""
    return f"{problem.hidden_wrong} of {problem.hidden} checks on hidden inputs failed."


def describe(finding: Finding) -> str:
    """One line such as "linear: torch.nn.functional.linear (model.py, line 12)"."""
    where = f"{one_line(finding.file)}, line {finding.line}"
    return f"{one_line(finding.problem)}: {one_line(finding.operator)} ({where})"


def failures(result: Result) -> list[Item]:
    """The items that were tried and are not right."""
    return [item for item in result.items if item.outcome not in ("passed", "not_started")]


def alike(items: Sequence[Item]) -> list[list[Item]]:
    """Put items together of which the same is to be said; the first of each is the one to show."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        said = explanation(item)
        if item.outcome == "error":  # What was asked follows on the next line.
            said = TOO_LONG if kind(item).startswith(TOO_LONG) else said.partition("\n")[0]
        groups.setdefault(said, []).append(item)
    return list(groups.values())


@functools.lru_cache(maxsize=2)
def everywhere(result: Result) -> list[list[Item]]:
    """Put together the errors that are the same in several problems: they have one cause."""
    return [
        group
        for group in alike([one for one in failures(result) if one.outcome == "error"])
        if len({item.problem for item in group}) > 1 and not kind(group[0]).startswith(TOO_LONG)
    ]


def shared_error(result: Result) -> str:
    """What most errors of several problems say, such as a file that is broken; "" without one."""
    largest = max(everywhere(result), key=len, default=None)
    return one_line(explanation(largest[0]).partition("\n")[0], 300) if largest else ""


def remark(result: Result) -> str:
    """The note, or else the error or endless loops that cost most: why somebody has few points."""
    return one_line(result.note, 500) or shared_error(result) or loops(result)


def loops(result: Result) -> str:
    """Name the problems with several checks that used up their seconds; "" without one."""
    slow = Counter(item.problem for item in failures(result) if kind(item).startswith(TOO_LONG))
    titles = [title(one) for one in result.problems if slow[one.problem] > 1]
    return f"looks like an endless loop: {', '.join(titles)}" if titles else ""


def own_failures(result: Result, problem: str) -> list[list[Item]]:
    """The failures of a problem that are its own, those alike put together, hidden ones last."""
    told = {id(item) for group in everywhere(result) for item in group}
    own = [one for one in failures(result) if one.problem == problem and id(one) not in told]
    return alike(sorted(own, key=lambda item: item.is_hidden))


def has_own_failures(result: Result, problem: Problem) -> bool:
    """Whether there is more to say of a problem than that it shares a cause with others."""
    is_shared = not problem.passed and bool(everywhere(result))
    is_hidden = problem.hidden_wrong and not is_shared
    return bool(is_hidden or own_failures(result, problem.problem))


def all_failures(result: Result, problem: str) -> list[list[Item]]:
    """The failures of a problem, first its own, then those that others share with it."""
    shared = [[one for one in group if one.problem == problem] for group in everywhere(result)]
    return [*own_failures(result, problem), *filter(None, shared)]


def name_of_all(group: Sequence[Item]) -> str:
    """The name of the first, and how many others are like it."""
    others = f" and {len(group) - 1} more alike" if group[1:] else ""
    return f"{name(group[0])}{others}"


def is_right(problem: Problem) -> bool:
    """Whether nothing of it failed or is left to do."""
    return problem.failed + problem.not_started == 0


def shown_points(points: float) -> str:
    """Points with one decimal, rounded down: only what has no failure shows all of its points."""
    return f"{math.floor(points * 10 + 1e-9) / 10:.1f}"


def adjusted(by: Adjustment) -> str:
    """One line such as "-5 points: two days late"."""
    amount = f"{by.points:+g} point{'' if abs(by.points) == 1 else 's'}"
    return f"{amount}: {by.reason}" if by.reason else amount


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
    started = [problem for problem in ready if problem.failed]
    # Of what is to be started the smallest comes first, as in the handout and in `make test`.
    return started[0] if started else min(ready, key=lambda one: one.max_points, default=None)


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
    if error := shared_error(result):
        parts = {one.problem for group in everywhere(result) for one in group}
        waiting = [title(one) for one in result.problems if one.problem in parts]
        return NextStep(f"Repair this first: {error}", "make test", ", ".join(waiting))
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
    """The note, unless it is the next step, and the next step in lines of text."""
    step = next_step(result)
    note = [one_line(result.note, 500)] if result.note else []
    if step is None:
        return [*note, *(["Nothing is left to do."] if result.problems else [])]
    lines = [*([] if step.task == result.note else note), step.task, f"Try it with: {step.command}"]
    if step.waiting:
        lines.append(f"That may also be why these are wrong: {step.waiting}.")
    return lines


def command_for(problem: str) -> str:
    """The command by which a student runs the items of a problem."""
    return f'make test ARGS="--problem {one_line(problem)}"'


def causes(items: Sequence[Item]) -> list[tuple[str, int]]:
    """Each known mistake behind failures and how many it explains, the most frequent first."""
    counts = Counter(words(item.diagnosis) for item in items if item.diagnosis)
    return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
