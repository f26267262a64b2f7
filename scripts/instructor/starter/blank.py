"""Take the solution out of a module: what is left is what a student starts from.

Bodies go as a whole, by the syntax tree: no mark in the source can be forgotten, and what is added
to the library tomorrow is not given away. Kept are signatures with their comments, types and
docstrings; private functions, which only the solution calls, go altogether.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Set

STUB = "raise NotImplementedError"
LINE_LENGTH = 100
# Methods that a solution may have but nothing asks for.
UNASKED_METHODS = frozenset(
    {
        "extra_repr", "normalise", "add_rms_norm", "project", "hidden", "next_positions",
        "encode_plainly", "encode_to_array", "encode_batch", "decode_plainly", "dtype",
    }
)  # fmt: skip

Function = ast.FunctionDef | ast.AsyncFunctionDef


def blank(source: str, wanted: Iterable[str], given: Set[str] = frozenset(), note: str = "") -> str:
    """Return a module with stubs in the place of solutions.

    Args:
        source: The module.
        wanted: Names of functions and classes to leave as stubs, and of constants to leave.
        given: Names to leave as they are; "*" stands for all that is not wanted.
        note: What the module's docstring says after its first line.

    Raises:
        ValueError: The module does not define a name.
    """
    module = Module(source)
    wanted = set(wanted)
    if "*" in given:
        given = {name for name in module.defined if name not in wanted}
    if missing := sorted((wanted | set(given)) - module.defined.keys()):
        raise ValueError(f"there is no {missing[0]} to leave a stub of")
    kept = module.kept(wanted, given)
    parts = [module.render(name, name in wanted or not kept[name]) for name in kept]
    summary = (ast.get_docstring(module.tree) or "").partition("\n")[0]
    heading = f'"""{summary}\n\n{note}\n"""' if note else f'"""{summary}"""'
    imports = module.imports("\n".join(parts))
    return "\n".join([heading, "", *imports, *parts]) + "\n"


class Module:
    """The definitions of a module and the lines that they stand on."""

    def __init__(self, source: str) -> None:
        self.lines = source.splitlines()
        self.tree = ast.parse(source)
        self.defined: dict[str, ast.stmt] = {}
        self.docstrings: dict[str, ast.stmt] = {}
        last = None
        for node in self.tree.body:
            names = list(names_of(node))
            self.defined |= dict.fromkeys(names, node)
            if last and is_docstring(node):
                self.docstrings[last] = node
            last = names[0] if names and not isinstance(node, Function | ast.ClassDef) else None

    def kept(self, wanted: Set[str], given: Set[str]) -> dict[str, bool]:
        """Name all that stays, in the order of the source, and whether it stays as it is."""
        found = dict.fromkeys(wanted, False) | dict.fromkeys(given, True)
        waiting = list(found)
        while waiting:
            name = waiting.pop()
            node = self.defined[name]
            is_code = found[name] = found[name] or not isinstance(node, Function | ast.ClassDef)
            for other in used_names(node if is_code else ast.parse(self.stub(node))):
                if other in self.defined and other not in found:
                    found[other] = is_code
                    waiting.append(other)
        return {name: found[name] for name in self.defined if name in found}

    def render(self, name: str, as_stub: bool) -> str:
        """Write one definition, and above it the empty lines that it needs."""
        node = self.defined[name]
        if isinstance(node, Function | ast.ClassDef):
            return "\n\n" + (self.stub(node) if as_stub else self.text(node))
        docstring = self.docstrings.get(name)
        after = f"\n{self.text(docstring)}" if docstring else ""
        return "\n" + self.comment_above(node) + self.text(node) + after

    def stub(self, node: ast.stmt) -> str:
        """Write a function or class without what its author is to write."""
        if isinstance(node, Function):
            return f"{self.head(node)}\n{' ' * (node.col_offset + 4)}{STUB}"
        if not isinstance(node, ast.ClassDef):
            return self.text(node)
        parts = [self.head(node)]
        for member in node.body[has_docstring(node) :]:
            if isinstance(member, Function):
                if is_asked(member.name):
                    parts.append(f"\n{self.stub(member)}")
            elif not is_docstring(member):
                parts.append(f"{self.text(member)}")
        if len(node.body) > 1 and not isinstance(node.body[1], Function):
            parts.insert(1, "")
        return "\n".join(parts)

    def head(self, node: Function | ast.ClassDef) -> str:
        """Decorators, signature and docstring."""
        body = node.body
        if has_docstring(node):
            last = body[0].end_lineno or body[0].lineno
        else:
            last = first_line(body[0]) - 1
            while self.lines[last - 1].lstrip().startswith("#") or not self.lines[last - 1].strip():
                last -= 1
        return "\n".join(self.lines[first_line(node) - 1 : last])

    def text(self, node: ast.stmt) -> str:
        """The lines of a statement."""
        return "\n".join(self.lines[first_line(node) - 1 : node.end_lineno])

    def comment_above(self, node: ast.stmt) -> str:
        """The comment that stands right above a statement."""
        start = first_line(node) - 1
        first = start
        while first > 0 and self.lines[first - 1].startswith("#"):
            first -= 1
        return "".join(f"{line}\n" for line in self.lines[first:start])

    def imports(self, kept: str) -> list[str]:
        """The imports that are still needed, in the groups of the source."""
        used = set(used_names(ast.parse(kept)))
        for_types = [node for node in self.tree.body if is_for_types(node)]
        # Under TYPE_CHECKING, what types written as strings refer to.
        blocks = [self.text(node) for node in for_types if words(bound(node)) & words(kept)]
        used |= {"TYPE_CHECKING"} if blocks else set()
        lines: list[str] = []
        above = 0
        for node in self.tree.body:
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            aliases = [a for a in node.names if (a.asname or a.name.partition(".")[0]) in used]
            if aliases:
                if lines and any(not line.strip() for line in self.lines[above : node.lineno - 1]):
                    lines.append("")
                lines.append(import_line(node, aliases))
                above = node.end_lineno or node.lineno
            elif not lines:
                above = node.end_lineno or node.lineno
        return [*lines, *(f"\n{block}" for block in blocks)]


def is_for_types(node: ast.stmt) -> bool:
    """Tell whether a statement holds imports for the type checker only."""
    test = node.test if isinstance(node, ast.If) else None
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def bound(node: ast.stmt) -> str:
    """Name what the imports in a statement bind."""
    return " ".join(a.asname or a.name for a in ast.walk(node) if isinstance(a, ast.alias))


def words(text: str) -> set[str]:
    """Take a text apart into its words."""
    return set(re.findall(r"\w+", text))


def import_line(node: ast.Import | ast.ImportFrom, aliases: list[ast.alias]) -> str:
    """Write an import as the formatter would."""
    names = [a.name if a.asname is None else f"{a.name} as {a.asname}" for a in aliases]
    if isinstance(node, ast.Import):
        return "\n".join(f"import {name}" for name in names)
    line = f"from {node.module} import {', '.join(names)}"
    if len(line) <= LINE_LENGTH:
        return line
    return "\n".join([f"from {node.module} import (", *(f"    {name}," for name in names), ")"])


def names_of(node: ast.stmt) -> Iterator[str]:
    """Name what a top-level statement defines."""
    if isinstance(node, Function | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            yield from (name.id for name in ast.walk(target) if isinstance(name, ast.Name))


def used_names(node: ast.AST) -> Iterator[str]:
    """Name what a piece of code refers to; a type may be written as a string."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Constant) and str(part.value).isidentifier():
            yield str(part.value)


def is_asked(method: str) -> bool:
    """Tell the methods that a student has to write from those of the solution's own."""
    return method == "__init__" or not (method.startswith("_") or method in UNASKED_METHODS)


def first_line(node: ast.stmt) -> int:
    """The line of the first decorator, or of the statement itself."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def is_docstring(node: ast.stmt) -> bool:
    """Tell whether a statement is nothing but a string."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def has_docstring(node: Function | ast.ClassDef) -> bool:
    """Tell whether a body begins with a docstring."""
    return is_docstring(node.body[0])
