"""Which of PyTorch's operators right solutions call, problem by problem: run as a program.

    python operator_calls.py variants          # the right ones of the fault bank
    python operator_calls.py REPOSITORY        # a repository with tests/adapters.py

Prints {problem: [operator, ...]} as JSON; what is not right by the examination is left out.
Tokenizers, which compute nothing with tensors, are not run.
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
sys.path[:0] = [str(HERE.parent), str(ROOT / "tests"), str(ROOT)]
TEXT = ("train_bpe", "tokenizer")


def main(whose: str) -> None:
    if whose != "variants":
        from submission import load_adapters

        sys.modules["adapters"] = load_adapters(Path(whose))  # Before the bank imports them.
    from faults.bank import ADAPTERS, REFERENCE, Case, load
    from faults.run import examine

    if whose == "variants":
        cases = [case for case in load() if not case.is_fault]
    else:
        solutions = {
            problem: {name: getattr(REFERENCE, name) for name in names}
            for problem, names in ADAPTERS.items()
        }
        cases = [
            Case(problem, whose, found, is_fault=False) for problem, found in solutions.items()
        ]
    with tempfile.TemporaryDirectory() as folder:
        files = {
            id(case): Path(folder, str(number))
            for number, case in enumerate(case for case in cases if case.problem not in TEXT)
        }
        recorded = [recording(case, files[id(case)]) for case in cases if id(case) in files]
        called: dict[str, set[str]] = {}
        for result in examine(recorded, seed=0, jobs=2, on_result=lambda _: None):
            file = Path(folder, str(recorded.index(result.case)))
            if result.is_right and file.exists():
                called.setdefault(result.case.problem, set()).update(file.read_text().split())
            elif not result.is_right:
                sys.stderr.write(f"left out, not right: {result.case.title}\n")
    print(json.dumps({problem: sorted(names) for problem, names in called.items()}))


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

    def in_turn(stand_in):
        @functools.wraps(stand_in)
        def call(*args, **kwargs):
            start()
            return stand_in(*args, **kwargs)

        return call

    stand_ins = {name: in_turn(stand_in) for name, stand_in in case.stand_ins.items()}
    return replace(case, stand_ins=stand_ins)


if __name__ == "__main__":
    main(sys.argv[1])
