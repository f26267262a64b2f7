"""Examine the honest variants of the bank with forbidden operators blocked: run as a program.

    python policy_variants.py TITLE ...

Prints the titles that fail, each with its first message, as JSON.
"""

import functools
import json
import sys
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).parent


def main(titles) -> None:
    sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1])]
    from bank.cases import load
    from bank.run import examine

    from cs_grader.sandbox.forbidden import FORBIDDEN

    variants = [case for case in load() if case.title in titles and FORBIDDEN[case.problem]]
    cases = [with_block(case) for case in variants]
    results = examine(cases, seed=0, jobs=1, on_result=lambda _: None)
    failed = {r.case.title: r.error or r.failures[0].message for r in results if not r.is_right}
    print(json.dumps({"variants": len(cases), "failed": failed}))


def with_block(case):
    """The same case, blocked from the first call of an adapter on."""
    from cs_grader.sandbox import blocked

    @functools.cache
    def block():
        blocked.forbid(case.problem, lambda *_: None)

    def blocking(adapter):
        @functools.wraps(adapter)
        def call(*args, **kwargs):
            block()
            return adapter(*args, **kwargs)

        return call

    return replace(case, around=blocking)


if __name__ == "__main__":
    main(sys.argv[1:])
