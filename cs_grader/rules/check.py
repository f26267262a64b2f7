"""What the source of a submission says about the from-scratch rule."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cs_grader.result import Excerpt, Finding
from cs_grader.rules.copies import copies
from cs_grader.rules.modules import Mention, Unit
from cs_grader.rules.names import REVIEWED_ATTRIBUTES, group_of, is_unlisted, suspicion
from cs_grader.rules.references import read_source
from cs_grader.rules.solutions import solutions
from cs_grader.rules.source import Source
from cs_grader.sandbox.forbidden import FORBIDDEN

ADAPTERS_FILE = "tests/adapters.py"


@dataclass(frozen=True, slots=True)
class Policy:
    """What the source of a submission says about the from-scratch rule."""

    named: tuple[Finding, ...] = ()
    """Forbidden operators in code that the adapters lead to; whether it is called is not known."""
    review: tuple[Finding, ...] = ()
    solutions: tuple[Excerpt, ...] = ()
    """Where each problem is solved."""


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
        return _check(read_source(files), adapters)
    except (RecursionError, MemoryError):
        return unreadable("the source is nested too deeply, or too long")


def unreadable(reason: str) -> Policy:
    """What is known of a source that cannot be read: a person has to look."""
    words = f"not read for forbidden operators: {reason}"
    return Policy(review=(finding("", "", ADAPTERS_FILE, 0, words),))


def _check(source: Source, adapters: Mapping[str, Sequence[str]]) -> Policy:
    reached = {
        problem: source.reachable(ADAPTERS_FILE, adapters.get(problem, ())) for problem in FORBIDDEN
    }
    # A place is charged to the first problem whose adapters lead to it.
    named: dict[tuple[str, Mention], Finding] = {}
    for problem, units in reached.items():
        for mention in _mentions(units):
            group = group_of(mention.name)
            if group in FORBIDDEN[problem] and mention.is_certain:
                named.setdefault((group, mention), forbidden_finding(problem, mention))
    return Policy(
        named=tuple(named.values()),
        review=(*_review(source, reached), *_copies(source)),
        solutions=tuple(solutions(source, ADAPTERS_FILE, adapters)),
    )


def _mentions(units: Iterable[Unit]) -> Iterator[Mention]:
    for unit in units:
        yield from (mention for mention in unit.mentions if not mention.is_assigned)


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


def _review(source: Source, reached: Mapping[str, Sequence[Unit]]) -> Iterator[Finding]:
    problem_of = {unit: problem for problem in reversed(list(reached)) for unit in reached[problem]}
    said: set[tuple[str, int, str]] = set()
    for module in source.imported(ADAPTERS_FILE):
        for unit in module.units:
            problem = problem_of.get(unit, "")
            unexpected = unlisted(unit, problem) if problem else ()
            for name, line, words in [*suspicions(unit), *unexpected]:
                if (module.file, line, name) not in said:
                    said.add((module.file, line, name))
                    yield finding(problem, name, module.file, line, words)


def _copies(source: Source) -> Iterator[Finding]:
    imported = {module.file: module.text for module in source.imported(ADAPTERS_FILE)}
    for copy in copies(imported):
        words = f"these lines are those of {copy.original}"
        yield finding("", copy.original, copy.file, copy.line, words)


def suspicions(unit: Unit) -> Iterator[tuple[str, int, str]]:
    """Name, line and reason of what looks like a way around the rule."""
    for mention in unit.mentions:
        words = suspicion(mention.name, mention.is_assigned) if mention.is_certain else None
        if words:
            yield mention.name.removesuffix(".*"), mention.line, words
    for attribute in unit.attributes:
        if attribute.name in REVIEWED_ATTRIBUTES:
            yield attribute.name, attribute.line, f"{attribute.name} reaches into other code"


def unlisted(unit: Unit, problem: str = "") -> Iterator[tuple[str, int, str]]:
    """What may do the work of a problem, though this problem does not forbid it."""
    for mention in unit.mentions:
        is_name = mention.is_certain and not mention.name.endswith(".*")
        if is_name and (is_unlisted(mention.name) or is_of_another(mention.name, problem)):
            yield (
                mention.name,
                mention.line,
                f"{mention.name} is not among what the assignment allows; it costs nothing here",
            )


def is_of_another(name: str, problem: str) -> bool:
    """Whether a name is in a package for other problems, which may do this one's work, too."""
    group = None if name.startswith("torch.") else group_of(name)
    return group is not None and problem in FORBIDDEN and group not in FORBIDDEN[problem]
