"""Take the solutions out of a module by parsing it, so that its source needs no marks.

Definitions that students write keep signature, types and docstring. Other definitions stay only if
they are listed by name, so that code added later is not given away. Every line that stays is the
source's own, but for imports of names that nothing uses any more.
"""

import ast
from collections.abc import Collection, Iterator
from itertools import pairwise

STUB = "raise NotImplementedError"
METHODS = ("__init__", "forward", "step", "encode", "encode_iterable", "decode")
"""The methods that a student writes; a solution may have others."""
SPARED = "torch"
"""Students need it for their code, even where no signature does."""


def blank(source: str, asked: Collection[str], given: Collection[str], heading: str) -> str:
    """Return a module with stubs in the place of solutions.

    Args:
        source: The module; it and every class in it begin with a docstring.
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
    for before, node in reversed(list(pairwise(module.tree.body))):
        names = names_of(node)
        is_given = isinstance(node, ast.Import | ast.ImportFrom) or names & set(given)
        # A string below a constant says what it means.
        if is_given or (is_text(node) and names_of(before) & set(given)):
            continue
        if names & set(asked):
            module.stub(node, given)
        else:
            module.remove(node, before)
    module.lines[: module.tree.body[0].end_lineno] = [f'"""{heading}"""']
    kept = Module(module.text())
    used = {node.id for node in ast.walk(kept.tree) if isinstance(node, ast.Name)}
    for before, node in reversed(list(pairwise(kept.tree.body))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            kept.keep_names(node, before, used)
    return kept.text()


class Module:
    """The lines of a module by the nodes of its syntax tree, edited from the last to the first.

    Args:
        source: The module.
    """

    def __init__(self, source: str) -> None:
        self.lines = source.splitlines()
        self.tree = ast.parse(source)

    def text(self) -> str:
        """Return the module as it is now."""
        return "\n".join(self.lines).rstrip() + "\n"

    def remove(self, node: ast.stmt, before: ast.stmt) -> None:
        """Take out a statement and all that stands between it and the one before it."""
        first, last = before.end_lineno or 0, node.end_lineno or 0
        above, below = self.num_empty(first), self.num_empty(last)
        self.lines[first : last + below] = [""] * max(above, below)

    def num_empty(self, first: int) -> int:
        """Count the empty lines after a line."""
        rest = (number for number, line in enumerate(self.lines[first:]) if line)
        return next(rest, 0)

    def stub(self, node: ast.stmt, given: Collection[str]) -> None:
        """Take out of a function or class what a student is to write."""
        if isinstance(node, ast.FunctionDef):
            first = node.body[0]
            start = first.end_lineno if is_text(first) else self.end_of_signature(node)
            self.lines[start : node.end_lineno] = [f"{' ' * (node.col_offset + 4)}{STUB}"]
            return
        assert isinstance(node, ast.ClassDef)
        for before, member in reversed(list(pairwise(node.body))):
            name = getattr(member, "name", "")
            if name in METHODS:
                self.stub(member, given)
            elif f"{node.name}.{name}" not in given:
                self.remove(member, before)

    def end_of_signature(self, node: ast.FunctionDef) -> int:
        """Return the line on which the signature ends; a comment below it is the body's."""
        last = node.body[0].lineno - 1
        while self.lines[last - 1].lstrip().startswith("#") or not self.lines[last - 1].strip():
            last -= 1
        return last

    def keep_names(
        self, node: ast.Import | ast.ImportFrom, before: ast.stmt, used: Collection[str]
    ) -> None:
        """Keep of an import what is used."""
        kept = [
            alias
            for alias in node.names
            if (alias.asname or alias.name) in used or alias.name == SPARED
        ]
        if not kept:
            self.remove(node, before)
        elif len(kept) < len(node.names):
            node.names = kept
            self.lines[node.lineno - 1 : node.end_lineno] = [ast.unparse(node)]


def names_of(node: ast.stmt) -> set[str]:
    """Return what a top-level statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
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
