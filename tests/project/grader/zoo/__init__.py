"""The zoo: hostile, broken and unlucky submissions, each with the score that is right for it.

    make zoo                                  # all of them, graded twice
    make zoo ARGS="-k 'segfault or frames'"   # some of them

An animal is a right submission (the reference under another name) with one small change, the
problems that it should lose, and what the report should say. Two problems are graded, softmax and
SiLU: the change is made in one, the other shows that nothing else is lost.

    animal.py      what an animal is and what is expected of it; the right submission
    leaving.py     exits, hangs, crashes, floods of processes and memory
    cheating.py    results, tests, tools and answers within reach?
    answering.py   odd answers, odd objects, odd output
    packing.py     files, links, zips, encodings, what does not import
    shortcuts.py   operators that are not allowed, and what only looks like it
    hiding.py      work that is done where nobody looks
    grading.py     grades animals with scripts/instructor/grade.py and compares

Nothing here harms the machine if a wall does not hold: what could is bounded or checks first that
it runs as another user. That the grader itself is killed is in
test_zoo.py.
"""
