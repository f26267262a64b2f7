"""Hide diagnoses from a class made of the bank: does the class page group equal mistakes?

python -m lab.campaigns.clusters                       # 200 submissions, 30 hidden mistakes
"""

import os
import random
import sys

# Before torch starts: two pools of threads on the same cores would slow each other down.
os.environ["OMP_NUM_THREADS"] = "1"

from bank import cases, classroom
from cli import progress_printer, run

LEAST_RAND = 0.9


def main(
    size: int = 200,
    hidden: int = 30,
    hands: int = 3,
    problem: tuple[str, ...] = (),
    seed: int = 0,
    jobs: int = 2,
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
    """
    everyone = classroom.seat(
        cases.chosen(problems=problem), size, hidden, hands, random.Random(seed)
    )
    show, done = progress_printer(), 0

    def on_work(total: int) -> None:
        nonlocal done
        done += 1
        show("examining", "solutions", done, total)

    rows = classroom.examine(everyone, jobs, on_work)
    score = classroom.score(everyone, classroom.results(everyone, rows))
    print(score)
    if score.adjusted_rand < LEAST_RAND or score.honest_inside:
        sys.exit(1)


if __name__ == "__main__":
    run(main)
