"""Make a mixed batch of submissions, grade it, and say what that takes.

python -m lab.bench.batch submissions --size 200

Every ten hold all kinds, in the same order: right, wrong, unfinished, hostile and damaged ones.
"""

import importlib
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import tyro
from cli import run

from lab import ROOT


def main(out: Annotated[Path, tyro.conf.Positional], size: int = 12, jobs: int = 2) -> None:
    """Write a batch into a new folder, and grade it into the folder beside, with suffix .graded.

    Args:
        out: Where to write the batch.
        size: Number of submissions.
        jobs: Submissions at a time.
    """
    tests = ROOT / "tests"
    sys.path += map(str, (tests, tests / "project", tests / "project" / "grader"))
    mixed: Any = importlib.import_module("mixed_batch")
    out.mkdir(parents=True)
    for number in range(size):
        mixed.hand_in(number, out)
    grade = ROOT / "scripts" / "instructor" / "grade.py"
    graded = out.with_suffix(".graded")
    command = [sys.executable, grade, out, "--out", graded, "--jobs", jobs]
    start = time.monotonic()
    code = subprocess.run([*map(str, command)], check=False).returncode
    elapsed_s = time.monotonic() - start
    print(f"{elapsed_s:.1f} s, {elapsed_s / size:.1f} s each, exit code {code}")


if __name__ == "__main__":
    run(main)
