"""Damage files and run scripts on them, and show what the scripts must not do.

python -m lab.campaigns.fuzz --files 1000
python -m lab.campaigns.fuzz --files 1 --first 714    # one case again
"""

import argparse
import collections
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

# One thread, before torch starts: a fork takes no others along.
os.environ["OMP_NUM_THREADS"] = "1"

import cs_basics.interop.llama
from lab.campaigns.fuzz.commands import COMMANDS, make_world, ways_to_damage
from lab.campaigns.fuzz.trial import Ending, run_script

assert cs_basics.interop.llama


def main() -> int:
    """Run the cases; return how many went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--files", type=int, default=1000, help="how many files to damage")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--keep", type=Path, help="keep the folders of bad cases here")
    asked = parser.parse_args()
    started, bad, peak, slowest = time.monotonic(), 0, 0, 0.0
    codes: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as scratch:
        healthy = Path(scratch) / "healthy"
        make_world(healthy)
        for number in range(asked.first, asked.first + asked.files):
            case = Path(scratch) / "case"
            title, ending, complaints = run_case(number, healthy, case)
            codes[f"exit {ending.code}"] += 1
            peak, slowest = max(peak, ending.peak_bytes), max(slowest, ending.elapsed_s)
            if complaints:
                bad += 1
                print(f"case {number}: {title}: {', '.join(complaints)}")
                print("    " + "\n    ".join(ending.err.splitlines()[-12:]), flush=True)
                if asked.keep:
                    shutil.copytree(case, asked.keep / str(number), symlinks=True)
            shutil.rmtree(case)
            if (done := number + 1 - asked.first) % 100 == 0:
                print(f"{done} of {asked.files}, {bad} bad", file=sys.stderr, flush=True)
    ends = ", ".join(f"{count} {code}" for code, count in sorted(codes.items()))
    print(f"{asked.files} damaged files: {bad} bad; {ends}")
    print(f"at most {peak / 1e6:.0f} MB and {slowest:.1f} s each", end=", ")
    print(f"{time.monotonic() - started:.0f} s in all")
    return bad


def run_case(number: int, healthy: Path, case: Path) -> tuple[str, Ending, list[str]]:
    """Damage one file and run one script on it; the number decides everything."""
    rng = random.Random(number)
    command = rng.choices(COMMANDS, [command.weight for command in COMMANDS])[0]
    name = rng.choice(command.reads)
    damage = rng.choice(ways_to_damage(name))
    shutil.copytree(healthy, case)
    damage(case / name, rng)
    before = names(case)
    ending = run_script(list(command.arguments), case)
    complaints = ending.complaints()
    new = names(case) - before
    if left := [name for name in new if name.endswith(".tmp") or "malicious" in name]:
        complaints.append(f"left {', '.join(left)}")
    if ending.code and any(name.startswith("out") for name in new):
        complaints.append("partial output")
    return f"{damage.__name__} {name}: {' '.join(command.arguments)}", ending, complaints


def names(folder: Path) -> set[str]:
    """Return the paths of everything in a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


if __name__ == "__main__":
    sys.exit(min(main(), 1))
