"""After the examination: compares what was done with what the source names, as findings."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from cs_grader.inside.audit import IMPORTS, MADE_HERE, PICKLED
from cs_grader.inside.forbidden import FORBIDDEN
from cs_grader.inside.ledger import Entry
from cs_grader.inside.refused import COMPILED, REFUSED
from cs_grader.policy.check import ADAPTERS_FILE, Policy
from cs_grader.policy.rules import group_of
from cs_grader.result import Finding


def settle(
    policy: Policy,
    notes: Mapping[str, Sequence[Entry]],
    examined: Iterable[str],
    failed: Collection[str] | None = None,
) -> tuple[Finding, ...]:
    """Compare what was done with what was named.

    Args:
        policy: What the source says.
        notes: For each problem, what was noted while its probes ran; files relative to the
            submission.
        examined: The problems that were examined.
        failed: Those of them with an item that was not passed; None means all. In the others the
            submission caught the error of a forbidden call and went on without the operator.

    Returns:
        Findings in the order of the problems. A forbidden operator that cost nothing, because it
        was named but never called, or was called in vain, is left for review.
    """
    problems = [problem for problem in FORBIDDEN if problem in set(examined)]
    # Files in which operators were called: one problem may name an operator, and another call it.
    called_at = {
        (entry.file, group_of(entry.what))
        for problem in problems
        for entry in notes.get(problem, ())
        if entry.kind == "forbidden"
    }
    findings: list[Finding] = []
    for problem in problems:
        named = [finding for finding in policy.named if finding.problem == problem]
        is_costly = failed is None or problem in failed
        calls = [entry for entry in notes.get(problem, ()) if entry.kind == "forbidden"]
        called = [_called(problem, call, named, is_costly) for call in calls]
        findings += called
        if problem in policy.condemned:
            findings.append(policy.condemned[problem])
        seen = called_at | {(finding.file, group_of(finding.operator)) for finding in called}
        findings += [
            _never_called(finding)
            for finding in named
            if finding.operator.startswith("torch.")
            and (finding.file, group_of(finding.operator)) not in seen
        ]
    mine = [f for f in policy.review if f.problem in problems or not f.problem]
    noticed = _noticed({problem: notes.get(problem, ()) for problem in problems}, mine)
    return tuple(dict.fromkeys((*findings, *noticed, *mine)))


def _noticed(
    notes: Mapping[str, Sequence[Entry]], reviewed: Sequence[Finding]
) -> Iterator[Finding]:
    """What was noticed while the code ran and no review mentions, once for each place."""
    said: set[tuple[str | int, ...]] = {("code", one.file, one.line) for one in reviewed}
    for problem, entries in notes.items():
        for entry in entries:
            # A finding about the names in a line does not say that it tried something refused.
            is_said_by_a_name = entry.kind == "code" and entry.what not in REFUSED
            about = ("code",) if is_said_by_a_name else (entry.kind, entry.what)
            place = (*about, entry.file, entry.line)
            if entry.kind != "forbidden" and place not in said:
                said.add(place)
                yield Finding(
                    problem=problem,
                    rule="needs review",
                    operator=entry.what,
                    file=entry.file or ADAPTERS_FILE,
                    line=entry.line,
                    message=_words(entry),
                )


def _words(entry: Entry) -> str:
    if entry.kind == "operator":
        return f"{entry.what} is an operator that no known solution of this problem uses"
    if entry.what == COMPILED:
        return "compiled code that was written here was to be loaded, and was refused"
    if entry.what == MADE_HERE:
        return "code ran that is not in a Python file of the submission as handed in"
    if entry.what == PICKLED:
        return "a pickle named something other than data, and may have called it"
    if entry.what in IMPORTS.values():
        return f"{entry.what}: this package does the work of a problem; it costs nothing here"
    if entry.what in REFUSED:
        return f"{entry.what} was asked for, and refused"
    return f"{entry.what} reaches into other code"


def _called(problem: str, call: Entry, named: Sequence[Finding], is_costly: bool) -> Finding:
    # The examination calls a class that an adapter returns: only the source shows where it is from.
    group = group_of(call.what)
    here = next((f for f in named if group_of(f.operator) == group), None)
    file, line = (call.file, call.line) if call.file or not here else (here.file, here.line)
    return Finding(
        problem=problem,
        rule="forbidden" if is_costly else "needs review",
        operator=call.what,
        file=file,
        line=line,
        message=f"{call.what} is not allowed in this problem: write it yourself"
        if is_costly
        else f"{call.what} was called, was blocked, and the code went on without it",
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
