"""Marks submissions and trusts none of them: the answers never are where a submission runs.

result.py      what comes out for one submission; every output is written from it
plain_text.py  text that a submission had a hand in, made harmless
sandbox/       all that is copied into the sandbox, and nothing else
trusted/       all that is trusted: submissions, sandbox, connection, examiner, batch
rules/         what a source may not use
entries/       entries of a contest: runs their commands again and evaluates what is left
results/       Gradescope, gradebook, JUnit, GitHub, Markdown, pages
container/     what runs in a container of Gradescope
"""
