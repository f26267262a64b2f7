"""Verifies the entries of a contest in bits per byte, and believes nothing that an entry says.

Read it in this order. What runs behind the wall is sandbox/launch.py and sandbox/entry_model.py.

    entry.py        what is handed in: entry.toml, a run folder, changed code; its clean copy
    refusal.py      why an entry is refused, and values that are computed once
    run_files.py    a run's configuration, vocabulary, tokens and weights, read without running it
    wall.py         starts a program of an entry behind the grader's wall
    model.py        asks the tokenizer and the model behind the wall
    evaluation.py   bits per byte from logits: windows, probabilities, a look at the future
    rerun.py        runs the command again, by the verifier's own clock
    overlap.py      finds pieces of the validation text in other texts
    case.py         all that is known of one entry, computed when first asked for
    checks.py       the six checks, one question each
    leaderboard.py  the page with the table of verified entries
"""
