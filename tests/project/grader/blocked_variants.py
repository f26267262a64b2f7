"""Examine honest variants of the bank with forbidden operators blocked: run as a program.

    python blocked_variants.py TITLE ...

Prints a JSON list of [title, first message if it is not right]. Tokenizers, which compute nothing
with tensors, are not run.
"""

import functools
import json
import sys
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE.parent), str(ROOT / "tests/exam"), str(ROOT / "tests"), str(ROOT)]


def main(titles: list[str]) -> None:
    from bank.cases import load
    from bank.run import examine

    from cs_grader.sandbox.forbidden import FORBIDDEN

    cases = [case for case in load() if case.title in titles and FORBIDDEN[case.problem]]
    results = examine(list(map(with_block, cases)), seed=0, jobs=2, on_result=lambda _: None)
    print(json.dumps([[result.case.title, wrong(result)] for result in results]))


def wrong(result):
    return "" if result.is_right else result.error or result.failures[0].message


def with_block(case):
    """The same case, blocked from the first call of an adapter on."""
    from cs_grader.sandbox import blocked

    block = functools.cache(lambda: blocked.forbid(case.problem, lambda *_: None))

    def blocking(adapter):
        @functools.wraps(adapter)
        def call(*args, **kwargs):
            block()
            return adapter(*args, **kwargs)

        return call

    return replace(case, around=blocking)


if __name__ == "__main__":
    main(sys.argv[1:])
