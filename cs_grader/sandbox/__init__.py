"""All that is copied into the sandbox, and nothing else.

This folder is copied whole and runs beside the submission: whoever hands in code may read it, and
may take over the processes that run it. It therefore knows no answer and decides about nothing. It
imports the standard library, NumPy and torch, and nothing of cs_grader outside of this folder.

    wire.py        plain data as a header and raw bytes, the only thing that crosses its border
    confine.py     what the grader decides about the sandbox: limits that a process puts on itself
    processes.py   what the kernel tells about processes; a watch over those of a submission
    forbidden.py   the operators that each problem is solved without
    blocked.py     makes them raise
    ledger.py      where processes note what a person has to look at, and which line did it
    audit.py       notices code that the source does not show and reaching into other code, and
                   refuses what nothing could be seen of
    workplace.py   the folders that a submission may write to, and their removal
    absent.py      stand-ins for packages that are not installed, or not allowed
    inputs.py      where the server sees what became of a submission's inputs
    observers.py   keeps probes and grader out of a submission's way
    host.py        imports a submission and runs each probe in a forked process
    worker.py      the server, which forks hosts and watches them
"""
