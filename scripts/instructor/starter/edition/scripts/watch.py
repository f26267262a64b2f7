"""Examine what depends on a file, each time that you save it: python scripts/watch.py.

PyTorch and the examination are loaded once; each run is a fork of this process, which has imported
nothing of yours.
"""

import importlib.util
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
import torch
from cli import ROOT, run
from watchfiles import PythonFilter, watch

FOLDERS = [ROOT / "cs_basics", ROOT / "tests"]
RUBRIC = tomllib.loads((ROOT / "tests" / "rubric.toml").read_text(encoding="utf-8"))
GIVEN = (
    *("adapter", "alike", "compare", "mistakes", "oracles", "record", "submission"),
    *("torch.fx.experimental.symbolic_shapes", "torch._dynamo"),
)
"""What takes long to import of the examination, and of PyTorch at the first gradient or module."""
OPTIONS = [
    *("-c", str(ROOT / "pyproject.toml"), "--quiet", "--numprocesses", "0"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # Of what is imported beforehand.
]


def main() -> None:
    """Wait for a file to be saved, examine what depends on it, and wait again, until Ctrl-C."""
    prepare()
    if not hasattr(os, "fork"):
        print("no fork here: each examination starts a new process, which takes some seconds")
    print("watching cs_basics/ and tests/: save a file (Ctrl-C ends this)", flush=True)
    for changes in watch(*FOLDERS, watch_filter=PythonFilter(), raise_interrupt=True):
        if problems := depending_on(Path(path) for _, path in changes):
            print(f"\n{', '.join(problems)}", flush=True)
            examine(problems)


def prepare() -> None:
    """Load what every examination needs."""
    os.chdir(ROOT)
    torch.set_num_threads(1)
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "exam")]
    for name in GIVEN:
        importlib.import_module(name)
    if importlib.util.find_spec("stored"):  # An instructor's own folder has oracles instead.
        importlib.import_module("stored").load()


def depending_on(files: Iterable[Path]) -> list[str]:
    """Name the problems that are written, adapted or examined in some files."""
    modules = {file.stem for file in files}
    return [
        problem
        for problem, entry in RUBRIC.items()
        if modules & {place.partition(".")[0] for place in entry["write"]}
        or f"test_{problem}" in modules
        or "adapters" in modules
    ]


def examine(problems: Sequence[str]) -> None:
    """Examine problems in a fork, or else in a new process."""
    arguments = [*OPTIONS]
    for problem in problems:  # To collect all files would take longer than to run one.
        arguments += [f"tests/test_{problem}.py", "--problem", problem]
    if not hasattr(os, "fork"):
        subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False)
        return
    child = os.fork()
    if not child:
        code = 1
        try:
            code = int(pytest.main(arguments))
        finally:
            sys.stdout.flush()
            os._exit(code)
    os.waitpid(child, 0)


if __name__ == "__main__":
    run(main)
