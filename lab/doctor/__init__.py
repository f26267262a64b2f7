"""The bank of the run doctor: training programs, what goes wrong in them, and what only looks odd.

    programs/    six small programs, two in this project's style and four in others'
    faults/      changes that make a program wrong: dev*.txt, and blind*.txt, written by somebody
                 who had not seen the doctor's code
    healthy/     changes that look odd and train well, in the same two halves
    texts.py     writes the texts that the programs read
    cases.py     runs each case in a forked process and keeps what the doctor said
    __main__.py  counts what came of them, and writes doctor.md

A change is written as in tests/project/bank/patches.py. Its first line has the cause, one of the
doctor's names (or two that are equally right), then what is wrong, and the program:

    == loss-not-mean or evaluation | what is wrong | programs/notebook.py
"""
