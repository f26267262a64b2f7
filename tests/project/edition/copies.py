"""Does a text hold the body of a definition that a student is to write?

In Python by the syntax tree: two statements that follow each other, whatever their local names. In
any other text by its lines.
"""

import ast
import builtins
import functools
import re
from itertools import pairwise

from editions import ROOT, make_starter

MODULES = frozenset({"torch", "math", "np", "nn", "json", "regex", "re", *dir(builtins)})
FEWEST_NODES = 24
"""Smaller pairs of statements may be anybody's: `x = x + 1`, `return x`."""
FEWEST_LETTERS = 60
"""Shorter pairs of lines, likewise."""


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
        present = {
            window
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef)
            for window in windows(node)
        }
        return {name for name, _, node in solutions() if present & windows(node)}
    text = " ".join(text.split())
    return {
        name for name, source, node in solutions() if any(w in text for w in lines(source, node))
    }


def windows(function):
    """Return what identifies a function's body: all of it, and its pairs of statements."""
    body = [node for node in statements(function.body) if not is_docstring(node)]
    if len(body) == 1 and isinstance(body[0], ast.Raise | ast.Pass):
        return set()
    pairs = [tuple(body), *(pair for pair in pairwise(body) if size(pair) >= FEWEST_NODES)]
    return {fingerprint(pair) for pair in pairs}


def statements(body):
    """Yield statements and, each by itself, those inside them."""
    for node in body:
        yield node
        for part in ("body", "orelse", "finalbody"):
            yield from statements(getattr(node, part, []))


def is_docstring(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def own_parts(node):
    """Return a statement without the statements inside it."""
    return [
        child
        for child in ast.iter_child_nodes(node)
        if not isinstance(child, ast.stmt | ast.ExceptHandler)
    ]


def size(pair):
    return sum(1 for node in pair for part in own_parts(node) for _ in ast.walk(part))


def fingerprint(pair):
    """Write statements with their local names numbered as they come."""
    numbers = {}

    def numbered(match):
        name = match[2]
        return (
            match[0] if name in MODULES else f"{match[1]}{numbers.setdefault(name, len(numbers))}"
        )

    written = [
        type(node).__name__ + "".join(ast.dump(part) for part in own_parts(node)) for node in pair
    ]
    return re.sub(r"(id='|arg\(arg=')(\w+)", numbered, "; ".join(written))


def lines(source, function):
    """Return pairs of lines of a body, without the white space."""
    body = function.body[is_docstring(function.body[0]) :]
    texts = source.splitlines()[body[0].lineno - 1 : body[-1].end_lineno] if body else []
    pairs = (" ".join(f"{a} {b}".split()) for a, b in pairwise(texts))
    return [pair for pair in pairs if len(pair) >= FEWEST_LETTERS]
