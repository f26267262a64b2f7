"""Where the student edition is made, and who filled it in."""

import contextlib
import importlib
import os
import sys
from pathlib import Path

from processes import ROOT

HERE = Path(__file__).parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts" / "instructor")]
make_starter = importlib.import_module("make_starter")

WRITERS = {"reference": ROOT / "cs_basics", "independent": HERE.parent / "bank" / "independent"}
"""Folders with the modules that a student writes, as two people wrote them."""


def plain_environment(folder=""):
    """The environment of a student: one thread, and in place of this repository a folder."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(folder)}


def with_answers(folder, answers):
    """Put the stored answers into an edition."""
    stored = folder / "tests" / "exam/stored_answers.npz"
    with contextlib.suppress(FileExistsError):
        stored.symlink_to(answers / stored.name)
    return folder
