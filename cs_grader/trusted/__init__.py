"""All that is trusted: it knows the answers, and never imports or runs a line of a submission.

Read it in this order.

    submissions.py  finds what was handed in, and by whom
    clean_copy.py   a folder that takes only harmless files
    copying.py      a folder or a zip becomes a clean copy
    sandbox.py      the folders of a sandbox, its command, and its limits
    isolation.py    which kinds of sandbox work here: bubblewrap, another user, or a plain process
    connection.py   sends a probe into the sandbox and receives what comes back
    answer.py       what came of a probe, rebuilt from what the sandbox sent
    unchanged.py    what became of the tensors that a probe gave
    measured.py     probes that measure: work in other processes counts, too
    patience.py     how long probes are waited for, given what became of those before
    watch.py        ends a sandbox that waits for too long or uses too much
    hidden.py       hidden inputs, drawn from a secret
    examiner.py     the pytest plugin that runs the examination with its probes sent inside
    bare_submission.py  the pytest plugin that refuses to take a submission for a folder of tests
    examination.py  one submission, step by step
    verdict.py      its result: items, points, findings
    batch.py        many submissions, resumed where it was killed
"""
