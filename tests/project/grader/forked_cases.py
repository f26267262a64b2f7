"""Run code as a host of the sandbox would, each case in a fork: run as a program.

    python forked_cases.py < cases    # JSON: [preamble, [[preparation, source], ...]]

The preamble is run once and may import what takes long. A source is the body of a function of
`solution.py`; its preparation, which runs before the function does, says of what `tell` is told.
Prints a JSON list: the error that the function ends with ("" if none), and all that was told.
"""

import json
import os
import subprocess
import sys
import textwrap
import traceback
from pathlib import Path

ROOT = Path(__file__).parents[3]


def answers_to(preamble, cases):
    """Run the program; return the cases' answers by their names."""
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", __file__],
        input=json.dumps([preamble, list(cases.values())]),
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return dict(zip(cases, json.loads(finished.stdout), strict=True))


def in_a_fork(preparation, source, names):
    reading, writing = os.pipe()
    if os.fork() == 0:
        told, error = {}, ""
        source = f"def f():\n{textwrap.indent(source, '    ')}"
        exec(compile(source, "solution.py", "exec"), names)
        names["tell"] = lambda *entry: told.update({entry: None})
        exec(preparation, names)
        try:
            names["f"]()
        except BaseException as raised:
            error = f"{type(raised).__name__}: {raised}"
            # As a debugger or pytest would.
            for frame, _ in traceback.walk_tb(raised.__traceback__):
                dict(frame.f_locals)
        os.write(writing, json.dumps([error[:2000], list(told)]).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        text = file.read()
    os.wait()
    return json.loads(text) if text else ["the process died", []]


if __name__ == "__main__":
    names = {}
    preamble, cases = json.load(sys.stdin)
    exec(preamble, names)
    print(json.dumps([in_a_fork(*case, names) for case in cases]))
