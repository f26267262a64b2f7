"""Attacks: hostile, broken and unlucky submissions, and honest ones that look odd.

    make zoo                                  # all of them, graded twice
    make zoo ARGS="-k 'segfault or frames'"   # some of them

An attack is a right submission (the reference under another name) with one small change, the
problems that it should lose, and what the report should say. Two problems are graded, softmax and
SiLU: the change is made in one, the other shows that nothing else is lost. If the change is one
function, `make test` calls it once, in each kind of sandbox, and looks at what comes back.

    attack.py       what an attack is and what is expected of it; the right submission
    leaving.py      exits, hangs, crashes, floods of processes and memory
    cheating.py     results, tests, tools and answers within reach?
    remembering.py  what one process keeps for another, and what a second asking is good for
    answering.py    odd answers, odd objects, odd output
    packing.py      files, links, zips, encodings, what does not import
    shortcuts.py    operators that are not allowed, and what only looks like it
    hiding.py       work that is done where nobody looks
    honest.py       right and unusual: all of these have full marks
    asking.py       calls one at the end of a connection
    grading.py      grades them with scripts/instructor/grade.py and compares

Nothing here harms the machine if a sandbox does not hold: what could is bounded or checks first
that it runs as another user.
"""
