"""All that is trusted: it knows the answers, and never imports or runs a line of a submission.

Read it in this order.

    people.py       names and addresses from an export of Gradescope
    submissions.py  finds what was handed in
    clean_copy.py   a folder that takes only harmless files
    archives.py     copies what is in a zip
    copying.py      a folder or a zip becomes a clean copy
    stage.py        the folders that a sandbox is made of
    sandbox.py      the wall around a submission, and its limits
    tiers.py        which walls work here: bubblewrap, another user, or a plain process
    connection.py   sends a probe into the sandbox and checks what comes back
    unchanged.py    what became of the tensors that a probe gave
    watch.py        ends a sandbox that waits for too long or uses too much
    hidden.py       hidden inputs, drawn from a secret
    charges.py      which problems have paid for a forbidden operator
    examiner.py     the pytest plugin that runs the examination with its probes sent inside
    bare_submission.py  the pytest plugin that refuses to take a submission for a folder of tests
    terms.py        what is the same for all submissions that are graded together
    marking.py      what is known of one submission so far, and its points
    grading.py      one submission from what was handed in to its result
    batch.py        many submissions, resumed where it was killed
"""
