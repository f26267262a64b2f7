"""Python files of a submission, parsed and cut into units. Nothing is imported or run.

A unit is a statement at the top of a file. It binds names, and references.py finds out which names
of other packages and which other units it uses.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

# Folders that are on the import path when a submission's adapters are imported.
IMPORT_ROOTS = ("", "src/", "tests/")


@dataclass(frozen=True, slots=True)
class Mention:
    """A name of another package, used in a submission."""

    name: str
    """Dotted and without aliases, such as torch.nn.functional.silu."""
    file: str
    line: int
    is_certain: bool = True
    """False for a method of an object whose type the source does not tell."""
    is_assigned: bool = False
    """Something is stored under this name."""


@dataclass(slots=True, eq=False)
class Unit:
    """A statement at the top of a file and everything in it."""

    module: "Module"
    statement: ast.stmt
    mentions: list[Mention] = field(default_factory=list[Mention])
    attributes: list[Mention] = field(default_factory=list[Mention])
    """Every attribute in it, by its bare name."""
    refers_to: list[str] = field(default_factory=list[str])
    """Dotted names, to be looked up among the units of the submission."""
    own_names: list[str] = field(default_factory=list[str])
    """Names, to be looked up among the units of the same file."""


@dataclass(slots=True, eq=False)
class Module:
    """A file, parsed."""

    file: str
    package: str
    """Dotted name of the package that relative imports start from."""
    text: str
    tree: ast.Module
    units: list[Unit] = field(default_factory=list[Unit])
    names: dict[str, list[Unit]] = field(default_factory=dict[str, list[Unit]])
    """For each name at the top of the file, the units that bind it."""
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    """For names at the top of the file, the dotted names that they stand for."""
    stars: list[str] = field(default_factory=list[str])
    """Modules from which `*` is imported."""
    imports: set[str] = field(default_factory=set[str])
    """Dotted names of everything that is imported anywhere in it."""


def parse(file: str, text: str) -> Module | None:
    """Parse a file; None if it is not Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    names = import_names(file)
    name = names[-1] if names else ""
    package = name if file.endswith("__init__.py") else name.rpartition(".")[0]
    return Module(file, package, text, tree)


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


def bind(module: Module) -> None:
    """Cut a file into units, and find out which names they bind and import."""
    for statement in module.tree.body:
        unit = Unit(module, statement)
        module.units.append(unit)
        for node in in_this_scope(statement):
            for name in bound_by(node):
                if unit not in (units := module.names.setdefault(name, [])):
                    units.append(unit)
            module.aliases |= import_aliases(node, module.package)
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                module.stars.append(_origin(node, module.package))
    for statement in module.tree.body:
        if isinstance(statement, ast.Assign) and (name := _dotted(statement.value, module)):
            for target in statement.targets:
                if isinstance(target, ast.Name) and len(module.names[target.id]) == 1:
                    module.aliases.setdefault(target.id, name)
    module.imports = set(_imports(module))


def _imports(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(node, module.package)
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def _dotted(node: ast.expr, module: Module) -> str | None:
    """The dotted name that an expression at the top of a file stands for; None if it is none."""
    if isinstance(node, ast.Name):
        return module.aliases.get(node.id)
    if isinstance(node, ast.Attribute) and (base := _dotted(node.value, module)):
        return f"{base}.{node.attr}"
    return None


def in_this_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Walk a statement without the bodies of functions and classes in it."""
    yield node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from in_this_scope(child)


def bound_by(node: ast.AST) -> Iterator[str]:
    """The name that a node binds, if it is not an import."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name


def import_aliases(node: ast.AST, package: str) -> dict[str, str]:
    """For each name that an import binds, the dotted name that it stands for."""
    if isinstance(node, ast.Import):
        return {
            alias.asname or alias.name.partition(".")[0]: (
                alias.name if alias.asname else alias.name.partition(".")[0]
            )
            for alias in node.names
        }
    if isinstance(node, ast.ImportFrom):
        origin = _origin(node, package)
        return {
            alias.asname or alias.name: f"{origin}.{alias.name}"
            for alias in node.names
            if alias.name != "*"
        }
    return {}


def _origin(node: ast.ImportFrom, package: str) -> str:
    parents = package.split(".") if package else []
    parents = parents[: len(parents) - node.level + 1] if node.level else []
    return ".".join([*parents, *([node.module] if node.module else [])])
