"""Examine the honest variants of the bank with forbidden operators blocked: run as a program.

    python policy_variants.py TITLE ...

Prints the titles that fail, each with its first message, and the operators that are noticed because
no known solution uses them, as JSON.
"""

import functools
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).parent


def main(titles) -> None:
    tests = HERE.parents[1]
    sys.path[:0] = [str(HERE), str(HERE.parent), str(tests), str(tests / "exam")]
    from bank.cases import load
    from bank.run import examine

    from cs_grader.sandbox.forbidden import FORBIDDEN

    variants = [case for case in load() if case.title in titles and FORBIDDEN[case.problem]]
    with tempfile.NamedTemporaryFile("a+") as file:
        cases = [with_block(case, file.name) for case in variants]
        results = examine(cases, seed=0, jobs=1, on_result=lambda _: None)
        noticed = dict.fromkeys(Path(file.name).read_text(encoding="utf-8").splitlines())
    failed = {r.case.title: r.error or r.failures[0].message for r in results if not r.is_right}
    print(json.dumps({"variants": len(cases), "failed": failed, "noticed": list(noticed)}))


def with_block(case, file):
    """The same case, blocked from the first call of an adapter on."""
    from cs_grader.sandbox import blocked, unlisted

    def note(operator, *place):
        with Path(file).open("a", encoding="utf-8") as notes:
            print(case.title, operator, *place, file=notes)

    @functools.cache
    def block():
        blocked.forbid(case.problem, lambda *_: None)
        unlisted.notice(unlisted.of_no_problem(), note)
        unlisted.notice(unlisted.of_other_problems(case.problem), note)

    def blocking(adapter):
        @functools.wraps(adapter)
        def call(*args, **kwargs):
            block()
            return adapter(*args, **kwargs)

        return call

    return replace(case, around=blocking)


if __name__ == "__main__":
    main(sys.argv[1:])
