"""Take the solutions out of a module by parsing it, so that its source needs no marks.

Definitions that students write keep signature, types and docstring. Other definitions stay only if
they are listed by name, so that code added later is not given away.
"""

import ast
from collections.abc import Collection, Iterator
from itertools import pairwise

STUB = "raise NotImplementedError"
METHODS = ("__init__", "forward", "step", "encode", "encode_iterable", "decode")
"""The methods that a student writes; a solution may have others."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def blank(source: str, asked: Collection[str], given: Collection[str], heading: str) -> str:
    """Return a module with stubs in the place of solutions; imports may be left without use.

    Args:
        source: The module.
        asked: Functions and classes to leave as stubs.
        given: Definitions to leave as they are; `Class.method` for one method.
        heading: The module's new docstring.

    Raises:
        ValueError: The module does not define a name.
    """
    module = Module(source)
    known = {name for node in module.tree.body for name in names_of(node)}
    if missing := {name.partition(".")[0] for name in [*asked, *given]} - known:
        raise ValueError(f"there is no {min(missing)} to leave")
    parts = [f'"""{heading}"""\n']
    for before, node in pairwise(module.tree.body):
        names = names_of(node)
        if isinstance(node, ast.Import | ast.ImportFrom) or names & set(given):
            parts.append(module.text(node))
        elif names & set(asked):
            parts.append(module.stub(node, given))
        elif is_text(node) and names_of(before) & set(given):
            parts.append(module.text(node))  # what a constant means
    return "\n".join(parts) + "\n"


class Module:
    """The lines of a module, by the nodes of its syntax tree."""

    def __init__(self, source: str) -> None:
        self.lines = source.splitlines()
        self.tree = ast.parse(source)

    def text(self, node: ast.stmt) -> str:
        """Return a statement with its decorators and the comment above it."""
        first = min([node.lineno, *(part.lineno for part in getattr(node, "decorator_list", []))])
        while first > 1 and self.lines[first - 2].lstrip().startswith("#"):
            first -= 1
        return "\n".join(self.lines[first - 1 : node.end_lineno])

    def stub(self, node: ast.stmt, given: Collection[str]) -> str:
        """Return a function or class without what a student is to write."""
        if isinstance(node, Function):
            return f"{self.head(node)}\n{' ' * (node.col_offset + 4)}{STUB}\n"
        assert isinstance(node, ast.ClassDef)
        parts = [self.head(node)]
        for member in node.body:
            if isinstance(member, Function):
                if f"{node.name}.{member.name}" in given:
                    parts.append(self.text(member))
                elif member.name in METHODS:
                    parts.append(self.stub(member, given))
        return "\n\n".join(parts) + "\n"

    def head(self, node: Function | ast.ClassDef) -> str:
        """Return decorators, signature and docstring."""
        last = node.body[0].end_lineno if is_text(node.body[0]) else self.end_of_signature(node)
        text = self.text(node).splitlines()
        return "\n".join(text[: len(text) - ((node.end_lineno or 0) - (last or 0))])

    def end_of_signature(self, node: Function | ast.ClassDef) -> int:
        """Return the line on which the signature ends; a comment below it is the body's."""
        last = node.body[0].lineno - 1
        while self.lines[last - 1].lstrip().startswith("#") or not self.lines[last - 1].strip():
            last -= 1
        return last


def names_of(node: ast.stmt) -> set[str]:
    """Return what a top-level statement defines."""
    if isinstance(node, Function | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return set(assigned(node))
    return set()


def assigned(node: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    """Name what an assignment assigns to."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))


def is_text(node: ast.stmt) -> bool:
    """Tell whether a statement is nothing but a string."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
