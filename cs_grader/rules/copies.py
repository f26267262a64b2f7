"""Passages that a submission shares with PyTorch's own source, or with the page's JavaScript.

What PyTorch writes in Python can be copied instead of called, and no kernel notices. Honest code
may share a line or two; several lines in a row that say something are a copy, for a person to see.

The page of a run computes in JavaScript (cs_basics/interop/page), which students are given. A
translation keeps the names and their order, whatever becomes of the lines: that is what is
compared. Who renames them, too, is not found.
"""

import functools
import importlib.util
import keyword
import re
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

PAGE = "cs_basics/interop/page"
NAMES = 10
"""Names in a row ..."""
DIFFERENT = 5
"""... of which so many are different."""
# What is no name in one of the two languages, or has another one there.
WORDS = frozenset(
    {
        *map(str.lower, keyword.kwlist),
        *("_", "const", "constructor", "export", "extends", "function", "let", "new", "static"),
        *("null", "undefined", "this", "self", "true", "inf", "infinity", "math", "torch"),
        *("array", "float32array", "float", "int", "number", "type", "param", "returns"),
        *("append", "push", "get", "len", "length", "max", "min", "range", "of"),
    }
)
UNREAD = re.compile(r'/\*.*?\*/|//[^\n]*|#[^\n]*|"""(?:.|\n)*?"""', re.DOTALL)


class Copy(NamedTuple):
    """A passage that a submission has copied from PyTorch, or translated."""

    file: str
    line: int
    original: str
    """File of PyTorch, such as torch/optim/adam.py, or of the page."""


def copies(files: Mapping[str, str]) -> list[Copy]:
    """Find a passage that each file shares with each original, if there is any."""
    return sorted([*_copied(files), *_translated(files)])


def _translated(files: Mapping[str, str]) -> Iterator[Copy]:
    known = _of_the_page()
    for file, text in files.items():
        found: set[str] = set()
        for line, run in runs_of_names(text) if known else ():
            if (original := known.get(run)) and original not in found:
                found.add(original)
                yield Copy(file, line, original)


@functools.cache
def _of_the_page() -> dict[tuple[str, ...], str]:
    root = Path(__file__).parents[2]
    scripts = sorted((root / PAGE).glob("*.js"))
    return {
        run: f"{path.parent.name}/{path.name}"
        for path in scripts
        for _, run in runs_of_names(path.read_text(encoding="utf-8"))
    }


def runs_of_names(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Every run of NAMES names in a row, in Python or JavaScript, and where it begins."""
    text = UNREAD.sub(lambda match: "\n" * match[0].count("\n"), text)
    names = [
        (number, name)
        for number, line in enumerate(text.splitlines(), 1)
        for word in re.findall(r"[A-Za-z_]\w+", line)
        if (name := re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).lower().strip("_")) not in WORDS
    ]
    for start in range(len(names) - NAMES + 1):
        run = tuple(name for _, name in names[start : start + NAMES])
        if len(set(run)) >= DIFFERENT:
            yield names[start][0], run


def _copied(files: Mapping[str, str]) -> list[Copy]:
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
    return list(found.values())


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
