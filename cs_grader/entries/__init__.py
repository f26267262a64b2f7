"""Verifies the entries of a contest in bits per byte, and believes nothing that an entry says.

Read it in this order. What lies in inside/ runs behind the wall.

    entry.py        what is handed in: entry.toml and changed code
    wall.py         starts a program with the entry's code behind the grader's wall
    rerun.py        runs the entry's command on the organiser's texts, by the organiser's clock
    answers.py      asks the tokenizer and the model that the run has left
    inside/         launch.py gives up rights and becomes a program of the entry; model.py answers
                    with the tokenizer or the model of its run
    evaluation.py   bits per byte from logits: windows, probabilities, a look at the future
"""
