"""What the source of a submission says about the from-scratch rule."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cs_grader.result import Finding
from cs_grader.rules.names import REVIEWED_ATTRIBUTES, group_of, is_unlisted, suspicion
from cs_grader.rules.reader import Mention, Source, Unit, reachable
from cs_grader.sandbox.forbidden import FORBIDDEN

ADAPTERS_FILE = "tests/adapters.py"
# Parsed, 40 MB of source can take 7 GB.
MEMORY_BYTES = 2 * 2**30
CPU_S = 30
# Only a machine that does ten other things is that slow.
TIMEOUT_S = 10 * CPU_S
APART = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_DATA, 2 * (int(sys.argv[2]),))
resource.setrlimit(resource.RLIMIT_CPU, 2 * (int(sys.argv[3]),))
sys.path.append(sys.argv[1])
from dataclasses import asdict
from cs_grader.rules.check import check_source
json.dump(asdict(check_source(*json.load(sys.stdin))), sys.stdout)
"""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the source of a submission says about the from-scratch rule."""

    named: tuple[Finding, ...] = ()
    """Forbidden operators in code that the adapters lead to; whether it is called is not known."""
    review: tuple[Finding, ...] = ()


def check_apart(
    files: Mapping[str, str],
    adapters: Mapping[str, Sequence[str]],
    memory_bytes: int = MEMORY_BYTES,
) -> Policy:
    """Do what `check_source` does where it can hurt nothing: Python's parser can be crashed."""
    try:
        finished = subprocess.run(
            [
                *(sys.executable, "-I", "-c", APART),
                str(Path(__file__).parents[2]),
                str(memory_bytes),
                str(CPU_S),
            ],
            input=json.dumps([files, adapters]),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if finished.returncode == 0:
            fields = json.loads(finished.stdout)
            return Policy(
                named=tuple(Finding(**one) for one in fields["named"]),
                review=tuple(Finding(**one) for one in fields["review"]),
            )
        reason = f"reading the source ended with status {finished.returncode}"
    except subprocess.TimeoutExpired:
        reason = f"reading the source takes longer than {TIMEOUT_S} s"
    return unreadable(reason)


def check_source(files: Mapping[str, str], adapters: Mapping[str, Sequence[str]]) -> Policy:
    """Read a submission.

    Args:
        files: Text of its Python files by path relative to its root, with forward slashes.
        adapters: The functions in tests/adapters.py that each problem examines (the rubric).

    Returns:
        What it uses; empty if there is nothing to report. Source that is nested too deeply or too
        long to be read is left for review.
    """
    try:
        return _check(Source(files), adapters)
    except (RecursionError, MemoryError):
        return unreadable("the source is nested too deeply, or too long")


def unreadable(reason: str) -> Policy:
    """What is known of a source that cannot be read: a person has to look."""
    words = f"not read for forbidden operators: {reason}"
    return Policy(review=(finding("", "", ADAPTERS_FILE, 0, words),))


def _check(source: Source, adapters: Mapping[str, Sequence[str]]) -> Policy:
    imported = source.imported(ADAPTERS_FILE)
    reached = {
        problem: reachable(imported, ADAPTERS_FILE, adapters.get(problem, ()))
        for problem in FORBIDDEN
    }
    # A place is charged to the first problem whose adapters lead to it.
    named: dict[tuple[str, Mention], Finding] = {}
    for problem, units in reached.items():
        for mention in (mention for unit in units for mention in unit.mentions):
            group = group_of(mention.name)
            is_use = mention.is_certain and not mention.is_assigned
            if group in FORBIDDEN[problem] and is_use:
                named.setdefault((group, mention), forbidden_finding(problem, mention))
    return Policy(
        named=tuple(named.values()),
        review=tuple(_review(imported, reached)),
    )


def forbidden_finding(problem: str, mention: Mention) -> Finding:
    """Report the use of a forbidden operator."""
    words = f"{mention.name} is not allowed in this problem: write it yourself"
    return finding(problem, mention.name, mention.file, mention.line, words, "forbidden")


def finding(
    problem: str, operator: str, file: str, line: int, message: str, rule: str = "needs review"
) -> Finding:
    """Report something that a person has to look at, unless there is another rule for it."""
    return Finding(
        problem=problem, rule=rule, operator=operator, file=file, line=line, message=message
    )


# --- what a person has to look at ---


def _review(imported: Sequence[Unit], reached: Mapping[str, Sequence[Unit]]) -> Iterator[Finding]:
    problem_of = {unit: problem for problem in reversed(list(reached)) for unit in reached[problem]}
    said: set[tuple[str, int, str]] = set()
    for unit in imported:
        problem = problem_of.get(unit, "")
        for name, line, words in doubts(unit, is_solution=bool(problem)):
            if (unit.file, line, name) not in said:
                said.add((unit.file, line, name))
                yield finding(problem, name, unit.file, line, words)


def doubts(unit: Unit, *, is_solution: bool) -> Iterator[tuple[str, int, str]]:
    """Name, line and reason of what looks like a way around the rule.

    Args:
        unit: Where to look.
        is_solution: Whether it solves a problem: then also what may hold a solution, though no
            problem forbids it.
    """
    for mention in unit.mentions:
        name = mention.name
        if name in REVIEWED_ATTRIBUTES:
            yield name, mention.line, f"{name} reaches into other code"
        elif mention.is_certain and (words := suspicion(name, mention.is_assigned)):
            yield name.removesuffix(".*"), mention.line, words
        elif is_solution and mention.is_certain and is_unlisted(name.removesuffix(".*")):
            words = "is none of the parts of PyTorch that the assignment allows by name"
            yield name, mention.line, f"{name} {words}: use what you wrote, or ask"
