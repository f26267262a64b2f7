"""Passages that a submission shares with PyTorch's own source.

What PyTorch writes in Python can be copied instead of called, and no kernel notices. Honest code
may share a line or two; several lines in a row that say something are a copy, for a person to see.
"""

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

PASSAGE = 8
"""Lines in a row."""
# A shorter line says nothing: "else:", "return x".
LEAST_CHARACTERS = 12
# Nor does a check of arguments, for which there are few words.
SAYS_NOTHING = ("#", '"', "'", "import", "from", "@", "raise", "ifnot0.0<=")
PATTERNS = ("optim/*.py", "nn/functional.py", "nn/modules/*.py", "nn/utils/clip_grad.py")


class Copy(NamedTuple):
    """A passage that a submission has copied from PyTorch."""

    file: str
    line: int
    original: str
    """File of PyTorch, such as torch/optim/adam.py."""


def copies(files: Mapping[str, str]) -> list[Copy]:
    """Find a passage that each file shares with each file of PyTorch, if there is any."""
    mine: dict[tuple[str, ...], tuple[str, int]] = {}
    for file, text in files.items():
        for line, passage in passages(text):
            mine.setdefault(passage, (file, line))
    found: dict[tuple[str, int], Copy] = {}
    for path, name in originals() if mine else ():
        text = path.read_text(encoding="utf-8", errors="replace")
        for _, passage in passages(text):
            if passage in mine:
                file, line = mine[passage]
                # PyTorch repeats itself: one of the files with these lines is enough.
                found.setdefault((file, line), Copy(file, line, name))
    return sorted(found.values())


def passages(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Every run of PASSAGE lines that say something, and where it begins."""
    lines = [
        (number, stripped)
        for number, line in enumerate(text.splitlines(), 1)
        if len(stripped := "".join(line.split())) >= LEAST_CHARACTERS
        and not stripped.startswith(SAYS_NOTHING)
    ]
    for start in range(len(lines) - PASSAGE + 1):
        run = lines[start : start + PASSAGE]
        yield run[0][0], tuple(stripped for _, stripped in run)


def originals() -> Iterator[tuple[Path, str]]:
    """The files of PyTorch that hold what a problem asks for, without importing any."""
    spec = importlib.util.find_spec("torch")
    for root in (spec.submodule_search_locations or []) if spec else []:
        for pattern in PATTERNS:
            for path in sorted(Path(root).glob(pattern)):
                yield path, f"torch/{path.relative_to(root).as_posix()}"
