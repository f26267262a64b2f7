"""Which of PyTorch's operators the honest variants of the bank call: run as a program.

    python operator_calls.py [TITLE ...]            # all, or some
    python operator_calls.py --repository=FOLDER    # a repository with tests/adapters.py

Forbidden operators are blocked. Prints a JSON list of {title, problem, wrong, operators}, where
`wrong` is the first message if it is not right. Tokenizers, which compute nothing with tensors, are
not run.
"""

import functools
import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE.parent), str(ROOT / "tests/exam"), str(ROOT / "tests"), str(ROOT)]
TEXT = ("train_bpe", "tokenizer")
AS_IT_IS = ": as it is"
OPTION = "--repository="


def main(*titles: str) -> None:
    from bank.cases import load
    from bank.run import examine

    cases = [case for case in load() if not case.is_fault and case.problem not in TEXT]
    if titles and titles[0].startswith(OPTION):
        root = Path(titles[0].removeprefix(OPTION))
        cases = [replace(case, root=root) for case in cases if case.title.endswith(AS_IT_IS)]
    elif titles:
        cases = [case for case in cases if case.title in titles]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        recorded = [recording(case, Path(folder, str(n))) for n, case in enumerate(cases)]
        for result in examine(recorded, seed=0, jobs=2, on_result=lambda _: None):
            case, file = result.case, Path(folder, str(recorded.index(result.case)))
            row = {"title": case.title, "problem": case.problem, "wrong": ""}
            if not result.is_right:
                row["wrong"] = result.error or result.failures[0].message
            row["operators"] = file.read_text().split() if file.exists() else []
            rows.append(row)
    print(json.dumps(rows))


def recording(case, file):
    """The same case, which leaves in a file what it calls from the first adapter on."""
    from cs_grader.sandbox import blocked, unlisted

    @functools.cache
    def start():
        handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        seen = set()

        def note(operator, *_):
            if operator not in seen:
                seen.add(operator)
                os.write(handle, f"{operator}\n".encode())

        # Blocked ones raise first: whoever calls one is not right.
        unlisted.notice(unlisted.operators(), note)
        blocked.forbid(case.problem, lambda *_: None)

    def in_turn(adapter):
        @functools.wraps(adapter)
        def call(*args, **kwargs):
            start()
            return adapter(*args, **kwargs)

        return call

    return replace(case, around=in_turn)


if __name__ == "__main__":
    main(*sys.argv[1:])
