"""Does a text hold the body of a definition that a student is to write?

In Python whatever its names are and however it is laid out; in any other text by its lines. Two
lines that follow each other are enough, unless anybody might have written them.
"""

import ast
import builtins
import functools
import keyword
import re
from itertools import pairwise

from editions import ROOT, make_starter

KEPT_NAMES = frozenset(
    {"torch", "math", "np", "nn", "json", "regex", "re", *dir(builtins), *keyword.kwlist}
)
FEWEST_LETTERS = 60
"""Shorter pairs of lines may be anybody's: `x = x + 1`, `return x`."""
FEWEST_OF_PYTHON = 80
"""Likewise where names are not compared: a closure is called, a number is refused."""


@functools.cache
def solutions():
    """Return each function that is not given: where it stands, its source, its statements."""
    return list(_solutions())


def _solutions():
    for module in make_starter.BLANK:
        source = (ROOT / "cs_basics" / f"{module}.py").read_text(encoding="utf-8")
        given = make_starter.KEPT.get(module, ())
        for top in ast.parse(source).body:
            if getattr(top, "name", None) in {None, "LayerNorm", *given}:
                continue
            for node in ast.walk(top):
                if isinstance(node, ast.FunctionDef) and node.name != "extra_repr":
                    name = node.name if node is top else f"{top.name}.{node.name}"
                    if name not in given:
                        yield f"{module}.{name}", source, node


def copied(place, text):
    """Name the solutions of which something stands in a file of the edition."""
    if place.endswith(".py"):
        functions = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef))
        present = {one for function in functions for one in renamed(function)}
        return {name for name, _, node in solutions() if present & renamed(node)}
    text = " ".join(text.split())
    return {
        name
        for name, source, node in solutions()
        if any(w in text for w in as_written(source, node))
    }


def without_docstring(function):
    first = function.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return function.body[is_docstring:]


@functools.cache
def renamed(function):
    """Return a body and its pairs of lines, the local names in each numbered as they come."""
    lines = [
        line.strip()
        for node in without_docstring(function)
        for line in ast.unparse(node).splitlines()
    ]
    if not lines or lines[0].startswith(("raise", "pass")):
        return frozenset()
    return frozenset(map(numbered, ["; ".join(lines), *pairs(lines, FEWEST_OF_PYTHON)]))


def numbered(text):
    numbers = {}

    def number(match):
        name = match[0]
        return name if name in KEPT_NAMES else f"_{numbers.setdefault(name, len(numbers))}"

    return re.sub(r"(?<![\w.'\"])[A-Za-z_]\w*", number, text)


@functools.cache
def as_written(source, function):
    """Return pairs of lines of a body, without the white space."""
    body = without_docstring(function)
    return pairs(source.splitlines()[body[0].lineno - 1 : body[-1].end_lineno] if body else [])


def pairs(lines, fewest=FEWEST_LETTERS):
    joined = (" ".join(f"{a} {b}".split()) for a, b in pairwise(lines))
    return [pair for pair in joined if len(pair) >= fewest]
