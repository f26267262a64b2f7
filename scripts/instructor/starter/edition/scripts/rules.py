"""Say what of your code the from-scratch rule forbids: python scripts/rules.py.

It reads what `make submission` would pack, where you may have written anything.
"""

import sys

from cli import ROOT, run
from package import ADAPTERS, beside_adapters, survey

from cs_grader.rules.__main__ import check_library


def main() -> None:
    """Print a line for each thing that is not allowed; the exit code is 1 if there is any."""
    needed = {ADAPTERS, *beside_adapters(ROOT)}
    places = [place for place, reason in sorted(survey(ROOT, needed)) if not reason]
    files = {
        place.as_posix(): (ROOT / place).read_text(encoding="utf-8", errors="replace")
        for place in places
        if place.suffix == ".py"
    }
    for found in (findings := check_library(files)):
        print(f"{found.file}:{found.line}: {found.message}", file=sys.stderr)
    if findings:
        sys.exit(1)
    print(f"nothing forbidden in what you would hand in: {len(files)} files")


if __name__ == "__main__":
    run(main)
