"""Hide diagnoses from a class made of the fault bank: does the class page group equal mistakes?

python -m lab.campaigns.clusters                       # 200 submissions, 30 hidden mistakes
python -m lab.campaigns.clusters --out /tmp/class      # ... and the class page
"""

import importlib
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from cli import check_can_write, progress_printer, run

from cs_grader.outputs.write import write_class, write_outputs

LEAST_RAND = 0.9


def main(
    size: int = 200,
    hidden: int = 30,
    hands: int = 3,
    problem: tuple[str, ...] = (),
    seed: int = 0,
    jobs: int = 2,
    out: Path | None = None,
) -> None:
    """Print how well submissions with the same mistake are grouped together.

    The exit code is 1 if the adjusted Rand index is below 0.9 or an honest solution is in a group.

    Args:
        size: Submissions in the class.
        hidden: Mistakes whose diagnoses are hidden.
        hands: Ways in which each hidden mistake is written, with different rounding.
        problem: Problems to take mistakes from (none: all).
        seed: Decides who makes which mistake.
        jobs: Processes at a time.
        out: Folder for the pages of this class, to look at.
    """
    if not hasattr(os, "fork"):
        raise OSError("each solution runs in a forked process, which this system does not have")
    if out is not None:
        check_can_write(out)
    os.environ["OMP_NUM_THREADS"] = "1"
    bank: Any = importlib.import_module("faults.bank")
    classroom: Any = importlib.import_module("faults.classroom")
    cases = bank.chosen(problems=problem)
    num_faults = sum(case.is_fault for case in cases)
    if not 1 <= hidden <= num_faults:
        raise ValueError(f"--hidden {hidden}: there are {num_faults} mistakes to choose from")
    if min(size, hands, jobs) < 1:
        raise ValueError("--size, --hands and --jobs have to be at least 1")
    show, done = progress_printer(), 0

    def on_work(total: int) -> None:
        nonlocal done
        done += 1
        show("examining", "solutions", done, total)

    everyone = classroom.seat(cases, size, hidden, hands, random.Random(seed))
    results = classroom.results(everyone, classroom.examine(everyone, jobs, on_work))
    began = time.monotonic()
    score = classroom.score(everyone, results)
    print(f"{score}; grouped in {time.monotonic() - began:.1f} s")
    if out is not None:
        for result in results:
            (out / result.submission).mkdir(parents=True, exist_ok=True)
            write_outputs(result, out / result.submission)
        write_class(results, out)
        print(f"written to {out}")
    if score.adjusted_rand < LEAST_RAND or score.honest_inside:
        sys.exit(1)


if __name__ == "__main__":
    run(main)
