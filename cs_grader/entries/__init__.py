"""Verifies the entries of a contest in bits per byte, and believes nothing that an entry says.

Read it in this order.

    entry.py        what is handed in: entry.toml and changed code
    sandboxed.py    starts a program with the entry's code in the grader's sandbox
    rerun.py        runs the entry's command on the organiser's texts, by the organiser's clock
    answers.py      asks the tokenizer and the model that the run has left
    inside/         what runs in the sandbox
    evaluation.py   bits per byte from logits: windows, probabilities, a look at the future
"""
