"""Passages that a submission shares with PyTorch's own source, or with the page's JavaScript.

What PyTorch writes in Python can be copied instead of called, and no kernel notices. The page of a
run computes in JavaScript (cs_basics/interop/page), which students are given. A copy, or a
translation, keeps the names and their order, whatever becomes of the lines: that is what is
compared, for a person to see. Who renames them, too, is not found.
"""

import functools
import importlib.util
import keyword
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

NAMES = 10
"""Names in a row ..."""
DIFFERENT = 5
"""... of which so many are different."""
OF_TORCH = ("optim/*.py", "nn/functional.py", "nn/modules/*.py", "nn/utils/clip_grad.py")
PAGE = Path(__file__).parents[2] / "cs_basics" / "interop" / "page"
# What is no name in one of the two languages, or has another one there; and the arguments of an
# optimizer, which everybody checks and hands on as PyTorch does.
WORDS = frozenset(
    {
        *map(str.lower, keyword.kwlist),
        *("_", "const", "constructor", "export", "extends", "function", "let", "new", "static"),
        *("null", "undefined", "this", "self", "true", "inf", "infinity", "math", "torch"),
        *("array", "float32array", "float", "int", "number", "type", "param", "returns"),
        *("append", "push", "get", "len", "length", "max", "min", "range", "of"),
        *("lr", "betas", "eps", "weight_decay", "params", "defaults", "dict", "super", "init"),
    }
)
UNREAD = re.compile(r'/\*.*?\*/|//[^\n]*|#[^\n]*|"""(?:.|\n)*?"""|\braise [^\n]*', re.DOTALL)


class Copy(NamedTuple):
    """A passage that a submission has copied from PyTorch, or translated."""

    file: str
    line: int
    original: str
    """File of PyTorch, such as torch/optim/adam.py, or of the page."""


def copies(files: Mapping[str, str]) -> list[Copy]:
    """Find the first passage that each file shares with each original, if there is any."""
    mine: dict[tuple[str, ...], dict[str, int]] = {}
    for file, text in files.items():
        for line, run in runs_of_names(text):
            mine.setdefault(run, {}).setdefault(file, line)
    found: dict[tuple[str, int], Copy] = {}
    for path, name in originals():
        first: dict[str, int] = {}
        for _, run in runs_of_names(path.read_text(encoding="utf-8", errors="replace")):
            for file, line in mine.get(run, {}).items():
                first[file] = min(line, first.get(file, line))
        for place in first.items():
            # PyTorch repeats itself: one of the files with this passage is enough.
            found.setdefault(place, Copy(*place, name))
    return sorted(found.values())


def runs_of_names(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Every run of NAMES names in a row, in Python or JavaScript, and where it begins."""
    text = UNREAD.sub(lambda match: "\n" * match[0].count("\n"), text)
    names = [
        (number, name)
        for number, line in enumerate(text.splitlines(), 1)
        for word in re.findall(r"[A-Za-z_]\w+", line)
        if (name := _plain(word)) not in WORDS
    ]
    for start in range(len(names) - NAMES + 1):
        run = tuple(name for _, name in names[start : start + NAMES])
        if len(set(run)) >= DIFFERENT:
            yield names[start][0], run


@functools.cache
def _plain(word: str) -> str:
    """Write a name as Python does: dModel as d_model."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).lower().strip("_")


def originals() -> Iterator[tuple[Path, str]]:
    """The files that hold what a problem asks for, without importing any."""
    for path in sorted(PAGE.glob("*.js")):
        yield path, f"{PAGE.name}/{path.name}"
    spec = importlib.util.find_spec("torch")
    for root in (spec.submodule_search_locations or []) if spec else []:
        for pattern in OF_TORCH:
            for path in sorted(Path(root).glob(pattern)):
                yield path, f"torch/{path.relative_to(root).as_posix()}"
