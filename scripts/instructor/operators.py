"""Collect which of PyTorch's operators right solutions call: cs_grader/sandbox/operators.toml.

python scripts/instructor/operators.py [REPOSITORY ...]

The grader reports all other operators to the instructor (cs_grader/sandbox/unlisted.py). Run this
script again for another version of PyTorch, when the examination asks for something new, or to add
honest repositories.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # for cli.py

from cli import run

from cs_basics.run.atomic import write_atomically

ROOT = Path(__file__).parents[2]
LIST = ROOT / "cs_grader" / "sandbox" / "operators.toml"
PROGRAM = ROOT / "tests" / "project" / "grader" / "operator_calls.py"
HEAD = """\
# Operators of PyTorch that right solutions call, and in which problems: what the grader has nothing
# to say about. Written by scripts/instructor/operators.py; see unlisted.py.

"""


def main(repositories: tuple[Path, ...] = ()) -> None:
    """Run the honest variants of the bank, the three implementations as they are among them.

    Args:
        repositories: More right solutions, folders with tests/adapters.py.
    """
    called: dict[str, set[str]] = {}
    for options in ((), *((f"--repository={folder}",) for folder in repositories)):
        for row in _variants(*options):
            if row["wrong"]:
                sys.stderr.write(f"left out, not right: {row['title']}\n")
            else:
                for name in row["operators"]:
                    called.setdefault(name, set()).add(row["problem"])
    rows = [f'"{name}" = "{" ".join(sorted(called[name]))}"\n' for name in sorted(called)]
    write_atomically(LIST, (HEAD + "".join(rows)).encode())


def _variants(*options: str) -> list[dict[str, Any]]:
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROGRAM), *options],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=True,
    )
    return json.loads(finished.stdout.splitlines()[-1])


if __name__ == "__main__":
    run(main)
