"""Run the examination on the bank of limits, and print what each of them costs.

python -m bank --only rmsnorm    # those with this in their titles
python -m bank --alone --show    # the items of each limit's own problem; what is told
"""

import argparse
import dataclasses
import os
import sys
from pathlib import Path

# One thread, before torch starts: a fork takes no others along.
os.environ["OMP_NUM_THREADS"] = "1"
ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests/exam")]

from bank.limits import Cost, examine, load  # noqa: E402


def main() -> int:
    """Run the limits; return how many there is something wrong with."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--only", nargs="+", default=[""], help="limits with these in their titles")
    parser.add_argument("--alone", action="store_true", help="items of the limit's problem alone")
    parser.add_argument("--show", action="store_true", help="print what each is told")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    asked = parser.parse_args()
    limits = [
        dataclasses.replace(limit, is_alone=asked.alone)
        for limit in load()
        if any(text in limit.title for text in asked.only)
    ]
    costs: list[Cost] = []
    examine(limits, asked.jobs, costs.append)
    for cost in sorted(costs, key=lambda cost: cost.limit.title):
        lost = ", ".join(f"{problem} {share:.1%}" for problem, share in cost.lost.items())
        print(
            f"{cost.limit.title}: {len(cost.inside)} items of {cost.limit.claim!r},"
            f" {len(cost.outside)} others; {lost or 'nothing lost'}; named {cost.naming}"
        )
        for complaint in cost.complaints:
            print(f"  ! {complaint}")
        for failure in cost.failures if asked.show else ():
            print(f"  - {failure.item.split('::')[-1]}: {failure.message}")
    bad = sum(bool(cost.complaints) for cost in costs)
    print(f"{len(costs)} limits, {bad} with a complaint")
    return bad


if __name__ == "__main__":
    sys.exit(min(main(), 1))
