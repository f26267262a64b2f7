"""The zoo: hostile, broken and unlucky submissions, each with the score that is right for it.

    make zoo                                  # all of them, graded twice
    make zoo ARGS="-k 'segfault or frames'"   # some of them

An animal is a right submission (the reference under another name) with one small change, the
problems that it should lose, and what the report should say. Its number is the row of the table of
bad submissions that it stands for; every row of 1 to 50 has at least one animal. Two problems are
graded, softmax and SiLU: the change is made in one, the other shows that nothing else is lost.

    animal.py      what an animal is and what is expected of it; the right submission
    leaving.py     exits, hangs, crashes, floods of processes and memory       (1-10, 23, 24)
    cheating.py    results, tests, tools and answers within reach?             (11-19, 25-27, 44-46)
    answering.py   odd answers, odd objects, odd output                        (20-22, 36-40, 47-49)
    packing.py     files, links, zips, encodings, what does not import         (28-35)
    shortcuts.py   operators that are not allowed, and what only looks like it (41-43)
    hiding.py      work that is done where nobody looks                        (21, 42)
    grading.py     grades animals with scripts/instructor/grade.py and compares

Nothing here harms the machine if a wall does not hold: what could is bounded or checks first that
it runs as another user. Row 50 (the grader itself is killed) is in test_zoo.py.
"""
