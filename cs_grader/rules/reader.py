"""Which names the files of a submission use, by what a name stands for. Nothing is imported or run.

`F.silu`, `torch.nn.functional.silu`, a name from `from torch.nn.functional import silu as act`,
and `getattr(F, "silu")` are all a mention of torch.nn.functional.silu; a comment, a string and a
class of one's own called `SiLU` are not.

Each file is read by itself. What an import passes on to other files is mentioned where it is
imported, and where a problem is solved is told from the bare names that its adapters lead to.
"""

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from cs_grader.rules.names import REVIEWED_ATTRIBUTES, last_dangerous

# Folders that are on the import path when a submission's adapters are imported.
IMPORT_ROOTS = ("", "src/", "tests/")
# What takes or changes an attribute of any name, and whether it changes it.
OF_ANY_NAME = {
    "builtins.getattr": False,
    "builtins.vars": False,
    "builtins.setattr": True,
    "builtins.delattr": True,
}
Functions = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Scoped = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Mention:
    """A name of another package, used in a submission."""

    name: str
    """Dotted and without aliases, such as torch.nn.functional.silu; of an attribute that reaches
    into other code, such as __globals__, the bare name."""
    file: str
    line: int
    is_certain: bool = True
    """False for a method of an object whose type the source does not tell."""
    is_assigned: bool = False
    """Something is stored under this name."""


@dataclass(slots=True, eq=False)
class Unit:
    """A statement at the top of a file and everything in it."""

    file: str
    statement: ast.stmt
    binds: set[str]
    """Names at the top of the file that it gives a value."""
    mentions: list[Mention] = field(default_factory=list[Mention])
    uses: dict[str, None] = field(default_factory=dict[str, None])
    """Every bare name and attribute in it, in order."""


class Source:
    """The Python files of a submission, each read when it is asked for.

    Args:
        files: Text by path, relative to the submission's root and with forward slashes.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files
        self.readers: dict[str, _Reader] = {}
        self.by_name: dict[str, str] = {}
        for file in sorted(files):
            for name in import_names(file):
                self.by_name.setdefault(name, file)
        self.own = {name.partition(".")[0] for name in self.by_name}

    def reader(self, file: str) -> "_Reader":
        """What a file says; one that does not parse says nothing."""
        if file not in self.readers:
            self.readers[file] = _Reader(file, parse(self.files[file]), self.own)
        return self.readers[file]

    def units(self) -> Iterator[Unit]:
        """All units of all files."""
        for file in sorted(self.files):
            yield from self.reader(file).units

    def imported(self, file: str) -> list[Unit]:
        """All units of the files that importing a file brings in, its own first."""
        waiting = [file] if file in self.files else []
        found = dict.fromkeys(waiting)
        while waiting:
            for name in sorted(self.reader(waiting.pop()).imports):
                parts = name.split(".")
                for length in range(1, len(parts) + 1):
                    other = self.by_name.get(".".join(parts[:length]))
                    if other is not None and other not in found:
                        found[other] = None
                        waiting.append(other)
        return [unit for each in found for unit in self.reader(each).units]


def reachable(units: Iterable[Unit], file: str, names: Iterable[str]) -> list[Unit]:
    """Every unit that the bare names lead to from those that bind `names` in `file`, in order.

    A name may be bound in several files: it leads to all of them.
    """
    binding: dict[str, list[Unit]] = {}
    for unit in units:
        for name in unit.binds:
            binding.setdefault(name, []).append(unit)
    found = dict.fromkeys(u for name in names for u in binding.get(name, ()) if u.file == file)
    waiting = list(found)
    for unit in waiting:
        new = [other for name in unit.uses for other in binding.get(name, ()) if other not in found]
        found |= dict.fromkeys(new)
        waiting += dict.fromkeys(new)
    return list(found)


def parse(text: str) -> ast.Module:
    """Parse a file; an empty module if it is not Python."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return ast.parse("")


def import_names(file: str) -> list[str]:
    """The dotted names that a file can be imported by; the last is the shortest."""
    names: list[str] = []
    for root in IMPORT_ROOTS:
        if file.startswith(root):
            path = PurePosixPath(file.removeprefix(root)).with_suffix("")
            parts = path.parts[:-1] if path.name == "__init__" else path.parts
            if parts:
                names.append(".".join(parts))
    return names


def in_this_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Walk a statement without the bodies of functions and classes in it."""
    yield node
    if not isinstance(node, Scoped):
        for child in ast.iter_child_nodes(node):
            yield from in_this_scope(child)


class _Reader(ast.NodeVisitor):
    """Reads one file.

    Args:
        file: Its path in the submission.
        tree: What it parses to.
        own: First parts of the names of the submission's own modules.
    """

    def __init__(self, file: str, tree: ast.Module, own: set[str]) -> None:
        self.file, self.own = file, own
        name = (import_names(file) or [""])[-1]
        self.package = name if file.endswith("__init__.py") else name.rpartition(".")[0]
        self.imports: set[str] = set()
        """Dotted names of everything that is imported anywhere in the file."""
        self.aliases: dict[str, set[str]] = {}
        """What a name may stand for, anywhere in the file."""
        self.stars: list[str] = []
        self.parameters: list[set[str]] = []
        """Names that the functions around take as arguments: they stand for anything."""
        for node in ast.walk(tree):
            for alias, dotted in self.imported_by(node):
                self.imports.add(dotted)
                self.aliases.setdefault(alias, set()).add(dotted)
        self.units = [Unit(file, one, set(bound_by(one))) for one in tree.body]
        self.bound = {name for unit in self.units for name in unit.binds} - self.aliases.keys()
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign | ast.NamedExpr):
                names = {name for name in self.resolve(node.value) if "builtins." not in name}
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name) and names:
                        self.aliases.setdefault(target.id, set()).update(names)
        self.used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        for unit in self.units:
            self.unit = unit
            self.visit(unit.statement)

    def imported_by(self, node: ast.AST) -> Iterator[tuple[str, str]]:
        """Yield each name that an import binds and the dotted name that it stands for."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.imports.add(alias.name)
                first = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (first, first)
        if isinstance(node, ast.ImportFrom):
            parents = self.package.split(".") if self.package else []
            parents = parents[: len(parents) - node.level + 1] if node.level else []
            origin = ".".join([*parents, *([node.module] if node.module else [])])
            self.imports.add(origin)
            for alias in node.names:
                if alias.name == "*":
                    self.stars.append(origin)
                else:
                    yield alias.asname or alias.name, f"{origin}.{alias.name}"

    # --- what an expression stands for ---

    def resolve(self, node: ast.expr) -> set[str]:
        """The dotted names that an expression may stand for."""
        if isinstance(node, ast.Name):
            return self.resolve_name(node.id)
        if isinstance(node, ast.Attribute):
            return {f"{base}.{node.attr}" for base in self.resolve(node.value)}
        if isinstance(node, ast.Call):
            return self.resolve_call(node)
        return self.resolve(node.value) if isinstance(node, ast.NamedExpr) else set()

    def resolve_name(self, name: str) -> set[str]:
        if any(name in names for names in self.parameters):
            return set()
        if name in self.aliases:
            return self.aliases[name]
        if name in self.bound:
            return set()
        if hasattr(builtins, name):
            return {f"builtins.{name}"}
        return {f"{star}.{name}" for star in self.stars}

    def resolve_call(self, node: ast.Call) -> set[str]:
        function = self.resolve(node.func)
        if function & {"importlib.import_module", "builtins.__import__"}:
            return set(texts_in(node.args[:1]))
        if "builtins.getattr" in function and node.args:
            names, bases = texts_in(node.args[1:2]), self.resolve(node.args[0])
            return {f"{base}.{name}" for base in bases for name in names}
        return set()

    # --- noting ---

    def note(
        self, name: str, node: ast.AST, is_certain: bool = True, is_assigned: bool = False
    ) -> None:
        is_assigned |= isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)
        if name.partition(".")[0] in self.own:
            # student.model.torch.softmax: what an own module has imported.
            if (inner := last_dangerous(name)) is None:
                return
            name = inner
        line: int = getattr(node, "lineno", 0)
        self.unit.mentions.append(Mention(name, self.file, line, is_certain, is_assigned))

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self.unit.uses.update(dict.fromkeys(alias.name.split(".")))
        for alias, dotted in self.imported_by(node):
            if alias not in self.used:
                self.note(dotted, node)  # For others, which import it from here.

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.visit_Import(node)

    def visit_Name(self, node: ast.Name) -> None:
        self.unit.uses[node.id] = None
        if isinstance(node.ctx, ast.Load):
            for name in self.resolve_name(node.id):
                self.note(name, node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        names = self.resolve(node)
        for name in names:
            self.note(name, node)
        is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        if not (names or is_own) and isinstance(node.ctx, ast.Load):
            self.note(f"torch.Tensor.{node.attr}", node, is_certain=False)
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute) and (names or inner is node):
            self.unit.uses[inner.attr] = None
            if inner.attr in REVIEWED_ATTRIBUTES:
                self.note(inner.attr, inner)
            inner = inner.value
        if names and isinstance(inner, ast.Name):
            self.unit.uses[inner.id] = None
        else:
            self.visit(inner)

    def visit_Call(self, node: ast.Call) -> None:
        function = self.resolve(node.func)
        names = self.resolve(node)
        for name in names:
            self.note(name, node)
        for text in texts_in(node.args):
            if text in REVIEWED_ATTRIBUTES and function & OF_ANY_NAME.keys():
                self.note(text, node)
        if not names:
            for kind in sorted(function & OF_ANY_NAME.keys()) if node.args else ():
                for base in self.resolve(node.args[0]):
                    # Which attribute, only running it tells.
                    self.note(f"{base}.*", node, is_assigned=OF_ANY_NAME[kind])
            if "importlib.import_module" in function:
                self.note("importlib.import_module.*", node)
        if function & {"builtins.isinstance", "builtins.issubclass"}:
            # To ask for a type is not to use it.
            self.visit(node.args[0]) if node.args else None
            return
        self.generic_visit(node)

    # --- scopes ---

    def visit_FunctionDef(self, node: Functions) -> None:
        given = node.args
        decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
        for outer in (*decorators, *given.defaults, *given.kw_defaults):
            if outer is not None:
                self.visit(outer)
        names = {one.arg for one in ast.walk(given) if isinstance(one, ast.arg)}
        imported = {alias for one in ast.walk(node) for alias, _ in self.imported_by(one)}
        self.parameters.append(names - imported)
        for statement in node.body if isinstance(node.body, list) else [node.body]:
            self.visit(statement)
        self.parameters.pop()

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit_FunctionDef(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        # Annotations, here and in signatures, use nothing.
        self.visit(node.target)
        if node.value is not None:
            self.visit(node.value)


def bound_by(statement: ast.stmt) -> Iterator[str]:
    """The names at the top of a file that a statement binds."""
    for node in in_this_scope(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)


def texts_in(nodes: Iterable[ast.expr]) -> list[str]:
    """The constants among some expressions that are text."""
    constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return [value for value in constants if isinstance(value, str)]
