"""Marks submissions and trusts none of them: the answers never are where a submission runs.

Read it in this order.

    result.py       what comes out for one submission; every output is written from it
    submissions.py  a folder or a zip becomes a clean copy, read with suspicion
    wire.py         plain data as a header and raw bytes, the only thing that crosses the wall
    sandbox.py      the wall: bubblewrap, another user, or a plain process
    confine.py      limits that the process inside puts on itself
    processes.py    what the kernel tells about processes
    settings.py     what the grader decides about the inside
    watch.py        inside: what processes use up and how they end
    host.py         inside: imports a submission and runs each probe in a forked process
    worker.py       inside: the server, which forks them and watches
    absent.py       inside: stand-ins for packages that are not installed
    connection.py   outside: sends a probe in, and makes an exception of what went wrong
    examiner.py     outside: the pytest plugin that runs the examination with probes sent inside
    policy.py       what may not be used, by reading the source
    references.py   what a source refers to, resolved
    rules.py        what is forbidden, and what looks like a way around
    copies.py       code taken over from packages
    blocked.py      inside: operators that raise
    marking.py      one submission from its source to its result
    batch.py        many submissions, resumed where it was killed
    outputs/        Gradescope, gradebook, JUnit, GitHub, Markdown, pages
"""
