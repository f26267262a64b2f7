"""The from-scratch rule: what a submission may not use, read from its source without running it.

    policy = check_apart(files, adapters)   # before the examination
    blocked.forbid(problem, tell, lent)  # in the sandbox, before the submission is imported
    findings(policy, notes, problems, failed)  # after it; notes: what was noted in the sandbox

The judge is the running code: a forbidden operator raises where it is called, and costs the items
that call it; who pays is known from what was stopped (trusted/examiner.py). The source changes no
mark. It is read to say where an operator is used, and what looks like an attempt to undo the block:
that is shown to an instructor under "needs review", since only a person can tell a debugging aid
from a trick.

Read it in this order.

    names.py       which names the rule applies to
    reader.py      which of them the files of a submission mention, and where a problem is solved
    check.py       a submission's source becomes a Policy, in a process of its own
    findings.py    what was called and what the source names, as one list
    __main__.py    python -m cs_grader.rules, for a library that follows the rule everywhere
"""
