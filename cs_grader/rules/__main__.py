"""Tell what the from-scratch rule forbids or doubts in a library, used or not, by file and line.

python -m cs_grader.rules cs_basics
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from cs_grader.result import Finding
from cs_grader.rules.check import doubts, finding, forbidden_finding
from cs_grader.rules.names import group_of, is_within
from cs_grader.rules.reader import Source

EXEMPT = ("fast/native", "study/microscope", "study/doctor")
"""Folders of cs_basics that look into frames, modules or how operators are found, or build code."""


def main(arguments: list[str]) -> int:
    """Print a line for each finding; return 1 if there is any, 2 if there is nothing to check."""
    parser = argparse.ArgumentParser(prog="python -m cs_grader.rules", description=__doc__)
    parser.add_argument("folder", type=Path, help="the library")
    folder: Path = parser.parse_args(arguments).folder.resolve()
    exempt = [folder / place for place in EXEMPT]
    files = {
        path.relative_to(folder.parent).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.py"))
        if not any(path.is_relative_to(other) for other in exempt)
    }
    if not files:
        parser.error(f"{folder} holds no Python file: name a folder with source")
    findings = check_library(files)
    for one in findings:
        sys.stderr.write(f"{one.file}:{one.line}: {one.message}\n")
    return 1 if findings else 0


def check_library(files: Mapping[str, str]) -> list[Finding]:
    """Find everything that the rule forbids or doubts, whether or not it is used."""
    findings: list[Finding] = []
    for unit in Source(files).units():
        # `x.softmax` is no certain mention, but hardly of anything but a tensor.
        named = [mention for mention in unit.mentions if group_of(mention.name)]
        findings += [forbidden_finding("", mention) for mention in named]
        findings += [
            finding("", name, unit.file, line, words)
            for name, line, words in doubts(unit, is_solution=True)
            # A library may run git; a submission's solution has no reason to run anything.
            if not is_within(name, ("subprocess",))
        ]
    return findings


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
