"""What tests of the project hold: they run on a copy of it, in which something may be changed."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lab import ROOT
from lab.claims.rules import Figures

FOLDERS = ("cs_basics", "cs_grader", "lab", "scripts", "tests", "docs")


def outcomes(
    _seed: int, *, tests: Sequence[str], file: str = "", old: str = "", new: str = ""
) -> Figures:
    """Run tests and count how they end.

    Args:
        _seed: Plays no part.
        tests: Names as pytest takes them.
        file: A file that is changed first: its one place with `old` becomes `new`.
        old: What is changed; empty: nothing.
        new: What stands there instead.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name in FOLDERS:
            shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        for path in (*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *ROOT.glob("*.txt")):
            shutil.copy(path, place)
        if old:
            text = (place / file).read_text(encoding="utf-8")
            assert text.count(old) == 1, f"{file} holds {old!r} {text.count(old)} times"
            (place / file).write_text(text.replace(old, new), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-m", "", *tests]
        said = subprocess.run(
            command, cwd=place, capture_output=True, text=True, check=False
        ).stdout
    counts = {
        word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", said)
    }
    return {word: float(counts.get(word, 0)) for word in ("passed", "failed", "error")}
