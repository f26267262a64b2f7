"""The from-scratch rule: what a submission may not use, read from its source without running it.

    policy = check_apart(files, adapters)             # before the examination
    blocked.forbid(problem, policy.excused[problem])  # in the worker, before each probe
    findings = settle(policy, calls, problems)        # after it; calls: what blocked.calls() saw

The judge is the running code: a forbidden operator raises where it is called, and costs the items
that call it. The source is read for what running does not tell:

- what cannot be blocked when it runs, such as another package's tokenizer: `policy.condemned` are
  the problems whose items fail because of it;
- whom a call is charged to: a softmax that is torch.softmax fails the problem softmax, and not
  attention, block and model too, which are built from it. `policy.excused` says so;
- attempts to undo the block, and what looks like one. They are shown to a teacher under "needs
  review" and cost nothing: only a person can tell a debugging aid from a trick.

    python -m cs_grader.policy cs_basics    # a library that has to follow the rule everywhere;
    # behind it the names of files that need not

Tested by tests/project/test_policy*.py.
"""

import json
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cs_grader.blocked import FORBIDDEN, Call
from cs_grader.copies import copies
from cs_grader.references import Mention, Source, Unit
from cs_grader.result import Finding
from cs_grader.rules import REVIEWED_ATTRIBUTES, group_of, is_unlisted, is_within, suspicion

ADAPTERS_FILE = "tests/adapters.py"


@dataclass(frozen=True, slots=True)
class Policy:
    """What the source of a submission says about the from-scratch rule."""

    named: tuple[Finding, ...]
    """Forbidden operators in code that the adapters lead to; whether it is called is not known."""
    review: tuple[Finding, ...]
    condemned: dict[str, Finding]
    """Problems whose items fail whatever they return, and why."""
    excused: dict[str, frozenset[str]]
    """Of each problem the groups of operators whose use is charged to an earlier problem."""


def check_source(files: Mapping[str, str], adapters: Mapping[str, Sequence[str]]) -> Policy:
    """Read a submission.

    Args:
        files: Text of its Python files by path relative to its root, with forward slashes.
        adapters: The functions in tests/adapters.py that each problem examines (the rubric).

    Returns:
        What it uses; empty where nothing is to be said or nothing can be read.
    """
    try:
        return _check(Source(files), adapters)
    except RecursionError:
        return unreadable(adapters, "the source is nested too deeply")


def unreadable(adapters: Iterable[str], reason: str) -> Policy:
    """What is known of a source that cannot be read: nothing is excused, a person has to look."""
    finding = Finding(
        problem="",
        rule="needs review",
        operator="",
        file=ADAPTERS_FILE,
        line=0,
        message=f"not read for forbidden operators: {reason}",
    )
    return Policy((), (finding,), {}, {problem: frozenset() for problem in adapters})


def _check(source: Source, adapters: Mapping[str, Sequence[str]]) -> Policy:
    reached = {
        problem: source.reachable(ADAPTERS_FILE, adapters.get(problem, ())) for problem in FORBIDDEN
    }
    # Of each problem and group, the places that its adapters lead to.
    places: dict[tuple[str, str], dict[Mention, None]] = {}
    for problem, units in reached.items():
        for mention in _mentions(units):
            group = group_of(mention.name)
            if group in FORBIDDEN[problem]:
                places.setdefault((problem, group), {})[mention] = None
    charged: dict[tuple[str, Mention], str] = {}
    for (problem, group), mentions in places.items():
        for mention in mentions:
            charged.setdefault((group, mention), problem)
    excused: dict[str, frozenset[str]] = {}
    for problem in adapters:
        groups = [group for group in FORBIDDEN.get(problem, ()) if (problem, group) in places]
        excused[problem] = frozenset(
            group
            for group in groups
            if all(charged[group, mention] != problem for mention in places[problem, group])
        )
    named = [
        _forbidden(problem, mention)
        for (_, mention), problem in charged.items()
        if mention.is_certain
    ]
    condemned: dict[str, Finding] = {}
    for (_, mention), problem in charged.items():
        if mention.is_certain and not mention.name.startswith("torch."):
            condemned.setdefault(problem, _forbidden(problem, mention))
    return Policy(
        named=tuple(named),
        review=(*_review(source, reached), *_copies(source)),
        condemned=condemned,
        excused=excused,
    )


def _mentions(units: Iterable[Unit]) -> Iterator[Mention]:
    for unit in units:
        yield from (mention for mention in unit.mentions if not mention.is_assigned)


def _forbidden(problem: str, mention: Mention) -> Finding:
    return Finding(
        problem=problem,
        rule="forbidden",
        operator=mention.name,
        file=mention.file,
        line=mention.line,
        message=f"{mention.name} is not allowed in this problem: write it yourself",
    )


# --- what a person has to look at ---


def _review(source: Source, reached: Mapping[str, Sequence[Unit]]) -> Iterator[Finding]:
    problem_of = {unit: problem for problem in reversed(list(reached)) for unit in reached[problem]}
    said: set[tuple[str, int, str]] = set()
    for module in source.imported(ADAPTERS_FILE):
        for unit in module.units:
            for name, line, words in [*_suspicions(unit), *_unlisted(unit, unit in problem_of)]:
                if (module.file, line, name) not in said:
                    said.add((module.file, line, name))
                    yield _for_review(problem_of.get(unit, ""), name, unit, line, words)


def _copies(source: Source) -> Iterator[Finding]:
    imported = {module.file: module.text for module in source.imported(ADAPTERS_FILE)}
    for copy in copies(imported):
        yield Finding(
            problem="",
            rule="needs review",
            operator=copy.original,
            file=copy.file,
            line=copy.line,
            message=f"these lines are those of {copy.original}",
        )


def _for_review(problem: str, name: str, unit: Unit, line: int, words: str) -> Finding:
    return Finding(
        problem=problem,
        rule="needs review",
        operator=name,
        file=unit.module.file,
        line=line,
        message=words,
    )


def _suspicions(unit: Unit) -> Iterator[tuple[str, int, str]]:
    for mention in unit.mentions:
        words = suspicion(mention.name, mention.is_assigned) if mention.is_certain else None
        if words:
            yield mention.name.removesuffix(".*"), mention.line, words
    for attribute in unit.attributes:
        if attribute.name in REVIEWED_ATTRIBUTES:
            yield attribute.name, attribute.line, f"{attribute.name} reaches into other code"


def _unlisted(unit: Unit, is_reached: bool) -> Iterator[tuple[str, int, str]]:
    """What is not on the list of what may be used of torch.nn, though no problem forbids it."""
    for mention in unit.mentions:
        is_name = mention.is_certain and not mention.name.endswith(".*")
        if is_reached and is_name and is_unlisted(mention.name):
            yield (
                mention.name,
                mention.line,
                f"{mention.name} is not among what the assignment allows of torch.nn; "
                "it costs nothing here",
            )


# --- after the examination ---


def settle(
    policy: Policy,
    calls: Mapping[str, Sequence[Call]],
    examined: Iterable[str],
    failed: Collection[str] | None = None,
) -> tuple[Finding, ...]:
    """Put what was called beside what was named.

    Args:
        policy: What the source says.
        calls: Of each problem the forbidden calls that its probes ran into; their files relative
            to the submission.
        examined: The problems that were examined.
        failed: Those of them of which some item was not passed; None means all. In the others the
            submission caught the error and went on without the operator.

    Returns:
        Findings in the order of the problems. What cost nothing, a forbidden operator that was
        named and never called or called in vain, is left for review.
    """
    problems = [problem for problem in FORBIDDEN if problem in set(examined)]
    findings: list[Finding] = []
    for problem in problems:
        named = [finding for finding in policy.named if finding.problem == problem]
        is_costly = failed is None or problem in failed
        called = [_called(problem, call, named, is_costly) for call in calls.get(problem, ())]
        findings += called
        if problem in policy.condemned:
            findings.append(policy.condemned[problem])
        seen = {(finding.file, group_of(finding.operator)) for finding in called}
        findings += [
            _never_called(finding)
            for finding in named
            if finding.operator.startswith("torch.")
            and (finding.file, group_of(finding.operator)) not in seen
        ]
    mine = [f for f in policy.review if f.problem in problems or not f.problem]
    return tuple(dict.fromkeys((*findings, *mine)))


def _called(problem: str, call: Call, named: Sequence[Finding], is_costly: bool) -> Finding:
    # A class that an adapter returns is called by the examination: the source knows from where.
    group = group_of(call.operator)
    here = next((f for f in named if group_of(f.operator) == group), None)
    file, line = (call.file, call.line) if call.file or not here else (here.file, here.line)
    return Finding(
        problem=problem,
        rule="forbidden" if is_costly else "needs review",
        operator=call.operator,
        file=file,
        line=line,
        message=f"{call.operator} is not allowed in this problem: write it yourself"
        if is_costly
        else f"{call.operator} was called, was blocked, and the code went on without it",
    )


def _never_called(finding: Finding) -> Finding:
    return Finding(
        problem=finding.problem,
        rule="needs review",
        operator=finding.operator,
        file=finding.file,
        line=finding.line,
        message=f"{finding.operator} is named here, but was not called in the examination",
    )


# --- a library that follows the rule everywhere ---


def check_library(files: Mapping[str, str]) -> list[Finding]:
    """Find everything in a library that the rule has a word on, whether or not it is used."""
    findings: list[Finding] = []
    for unit in Source(files).units():
        findings += [
            _forbidden("", mention)
            for mention in unit.mentions
            if mention.is_certain and group_of(mention.name)
        ]
        findings += [
            _for_review("", name, unit, line, words)
            for name, line, words in [*_suspicions(unit), *_unlisted(unit, is_reached=True)]
            # A library may run git; a submission's solution has no reason to run anything.
            if not is_within(name, ("subprocess",))
        ]
    return findings


# --- in a process of its own ---


APART = """
import json, sys
sys.path.append(sys.argv[1])
from cs_grader.policy import check_source, to_json
sys.stdout.write(to_json(check_source(*json.load(sys.stdin))))
"""


def check_apart(
    files: Mapping[str, str], adapters: Mapping[str, Sequence[str]], timeout_s: float = 30
) -> Policy:
    """Do what `check_source` does where it can hurt nothing: Python's parser can be crashed."""
    try:
        finished = subprocess.run(
            [sys.executable, "-I", "-c", APART, str(Path(__file__).parents[1])],
            input=json.dumps([files, adapters]),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if finished.returncode == 0:
            return _from_json(finished.stdout)
        reason = f"reading the source ended with status {finished.returncode}"
    except subprocess.TimeoutExpired:
        reason = f"reading the source takes longer than {timeout_s:g} s"
    return unreadable(adapters, reason)


def to_json(policy: Policy) -> str:
    """Write a policy for another process."""
    excused = {problem: sorted(groups) for problem, groups in policy.excused.items()}
    return json.dumps(asdict(policy) | {"excused": excused})


def _from_json(text: str) -> Policy:
    fields = json.loads(text)
    return Policy(
        named=tuple(Finding(**finding) for finding in fields["named"]),
        review=tuple(Finding(**finding) for finding in fields["review"]),
        condemned={name: Finding(**finding) for name, finding in fields["condemned"].items()},
        excused={name: frozenset(groups) for name, groups in fields["excused"].items()},
    )


def main(folder: Path, *but: str) -> int:
    """Print what is wrong with a library, but for some of its files; return 1 if anything is."""
    files = {
        path.relative_to(folder.parent).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.py"))
        if path.stem not in but
    }
    findings = check_library(files)
    for finding in findings:
        sys.stderr.write(f"{finding.file}:{finding.line}: {finding.message}\n")
    return 1 if findings or not files else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), *sys.argv[2:]))
