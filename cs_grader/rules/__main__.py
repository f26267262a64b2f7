"""Check a library that has to follow the from-scratch rule everywhere.

python -m cs_grader.rules cs_basics --except cs_basics/fast/native ...

The whole command, with every exempt folder, stands in the Makefile under `check`.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from cs_grader.result import Finding
from cs_grader.rules.check import finding, forbidden_finding, suspicions, unlisted
from cs_grader.rules.names import group_of, is_within
from cs_grader.rules.references import read_source


def main(arguments: list[str]) -> int:
    """Print a line for each finding; return 1 if there is any, 2 if there is nothing to check."""
    parser = argparse.ArgumentParser(prog="python -m cs_grader.rules", description=__doc__)
    parser.add_argument("folder", type=Path, help="the library")
    parser.add_argument(
        "--except",
        dest="exempt",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="a folder in it to which the rule does not apply; may be repeated",
    )
    options = parser.parse_args(arguments)
    folder: Path = options.folder.resolve()
    exempt: list[Path] = [path.resolve() for path in options.exempt]
    for path in exempt:
        # After a folder is renamed, its exemption is an error and not one that exempts nothing.
        if not path.is_dir() or not path.is_relative_to(folder):
            parser.error(f"--except {path} is not a folder in {folder}")
    files = {
        path.relative_to(folder.parent).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.py"))
        if not any(path.is_relative_to(other) for other in exempt)
    }
    if not files:
        parser.error(f"{folder} holds no Python file")
    findings = check_library(files)
    for one in findings:
        sys.stderr.write(f"{one.file}:{one.line}: {one.message}\n")
    return 1 if findings else 0


def check_library(files: Mapping[str, str]) -> list[Finding]:
    """Find everything in a library that the rule forbids or doubts, whether or not it is used."""
    findings: list[Finding] = []
    for unit in read_source(files).units():
        findings += [
            forbidden_finding("", mention)
            for mention in unit.mentions
            # `x.softmax` is no certain mention, but hardly of anything but a tensor.
            if group_of(mention.name)
        ]
        findings += [
            finding("", name, unit.module.file, line, words)
            for name, line, words in [*suspicions(unit), *unlisted(unit)]
            # A library may run git; a submission's solution has no reason to run anything.
            if not is_within(name, ("subprocess",))
        ]
    return findings


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
