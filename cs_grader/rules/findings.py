"""After the examination: what was done and what the source names, as one list of findings."""

import dataclasses
from collections.abc import Collection, Iterator, Sequence

from cs_grader.result import Finding
from cs_grader.rules.check import ADAPTERS_FILE, Policy, finding
from cs_grader.rules.names import group_of
from cs_grader.sandbox.audit import COMPILED, IMPORTS, MADE_HERE, PICKLED, REFUSED
from cs_grader.sandbox.forbidden import FORBIDDEN
from cs_grader.sandbox.ledger import Entry

NEVER_CALLED = "is named here, but was not called in the examination"
WORDS = {
    COMPILED: "compiled code that was written here was to be loaded, and was refused",
    MADE_HERE: "code ran that is not in a Python file of the submission as handed in",
    PICKLED: "a pickle named something other than data, and may have called it",
}


def findings(
    policy: Policy,
    notes: Sequence[tuple[str, Entry]],
    examined: Collection[str],
    failed: Collection[str],
) -> tuple[Finding, ...]:
    """List what was done and what the source names, each place once.

    Args:
        policy: What the source says.
        notes: What was noted while the probes of a problem ran; files relative to the submission.
        examined: The problems that were examined.
        failed: Those of them with an item that was not passed. In the others the submission caught
            the error of a forbidden call and went on without the operator.
    """
    calls = [(problem, entry) for problem, entry in notes if entry.kind == "forbidden"]
    called = [_called(problem, entry, policy, problem in failed) for problem, entry in calls]
    # One problem may name an operator, and another call it.
    places = {(one.file, group_of(one.operator)) for one in called}
    named = [
        dataclasses.replace(one, rule="needs review", message=f"{one.operator} {NEVER_CALLED}")
        for one in policy.named
        if one.problem in examined and (one.file, group_of(one.operator)) not in places
    ]
    review = [one for one in policy.review if one.problem in examined or not one.problem]
    found = dict.fromkeys((*called, *named, *_noticed(notes, review), *review))
    order = list(FORBIDDEN)
    return tuple(sorted(found, key=lambda one: order.index(one.problem) if one.problem else 99))


def _called(problem: str, call: Entry, policy: Policy, is_costly: bool) -> Finding:
    # The examination calls a class that an adapter returns: only the source shows where it is from.
    mine = [one for one in policy.named if one.problem == problem]
    here = next((one for one in mine if group_of(one.operator) == group_of(call.what)), None)
    file, line = (call.file, call.line) if call.file or not here else (here.file, here.line)
    rule, words = (
        ("forbidden", "is not allowed in this problem: write it yourself")
        if is_costly
        else ("needs review", "was called, was blocked, and the code went on without it")
    )
    return finding(problem, call.what, file, line, f"{call.what} {words}", rule)


def _noticed(notes: Sequence[tuple[str, Entry]], reviewed: Sequence[Finding]) -> Iterator[Finding]:
    """What was noticed while the code ran and no review mentions, once for each place."""
    said: set[tuple[str | int, ...]] = {("code", one.file, one.line) for one in reviewed}
    for problem, entry in notes:
        # A finding about the names in a line does not say that it tried something refused.
        is_said_by_a_name = entry.kind == "code" and entry.what not in REFUSED
        about = ("code",) if is_said_by_a_name else (entry.kind, entry.what)
        place = (*about, entry.file, entry.line)
        if entry.kind != "forbidden" and place not in said:
            said.add(place)
            file = entry.file or ADAPTERS_FILE
            yield finding(problem, entry.what, file, entry.line, _words(entry))


def _words(entry: Entry) -> str:
    if entry.what in IMPORTS.values():
        return f"{entry.what}: this package does the work of a problem; it costs nothing here"
    if entry.what in REFUSED and entry.what != COMPILED:
        return f"{entry.what} was asked for, and refused"
    return WORDS.get(entry.what, f"{entry.what} reaches into other code")
