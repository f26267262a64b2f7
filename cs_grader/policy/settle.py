"""After the examination: what was called beside what the source names, as findings."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from cs_grader.inside.forbidden import FORBIDDEN, Call
from cs_grader.policy.check import Policy
from cs_grader.policy.rules import group_of
from cs_grader.result import Finding


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
