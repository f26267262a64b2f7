"""What a submission's source refers to, by name resolution and not by words.

`F.silu`, `torch.nn.functional.silu`, a name from `from torch.nn.functional import silu as act` and
`getattr(F, "silu")` are all a reference to `torch.nn.functional.silu`; a comment, a string and a
class of one's own called `SiLU` are not. Nothing is imported or run. Read before policy.py.

A source is cut into units, the statements at the top of each file. A unit refers to names of other
packages and to other units; what an adapter may come to call is what can be reached from its unit.
"""

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping
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
    """The units that a name at the top of the file is bound by."""
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    """Dotted names that names at the top of the file stand for."""
    stars: list[str] = field(default_factory=list[str])
    """Modules of which everything is imported."""
    imports: set[str] = field(default_factory=set[str])
    """Dotted names of everything that is imported anywhere in it."""


class Source:
    """All Python files of a submission.

    Args:
        files: Text by path, relative to the submission's root and with forward slashes. A file
            that does not parse is left out.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        self.modules: dict[str, Module] = {}
        self.by_name: dict[str, Module] = {}
        for file in sorted(files):
            if file.endswith(".py") and (module := _parsed(file, files[file])):
                self.modules[file] = module
                for name in _import_names(file):
                    self.by_name.setdefault(name, module)
        for module in self.modules.values():
            _bind(module)
        for module in self.modules.values():
            for unit in module.units:
                _Reader(unit, self).read()

    def units(self) -> Iterator[Unit]:
        """All units of all files."""
        for module in self.modules.values():
            yield from module.units

    def reachable(self, file: str, names: Iterable[str]) -> list[Unit]:
        """Every unit that the units which bind `names` in `file` lead to, themselves included."""
        module = self.modules.get(file)
        if module is None:
            return []
        waiting = [unit for name in names for unit in module.names.get(name, [])]
        found = dict.fromkeys(waiting)
        while waiting:
            for unit in self._neighbours(waiting.pop()):
                if unit not in found:
                    found[unit] = None
                    waiting.append(unit)
        return list(found)

    def _neighbours(self, unit: Unit) -> Iterator[Unit]:
        for name in unit.refers_to:
            yield from self.look_up(name)
        for name in unit.own_names:
            yield from unit.module.names.get(name, [])

    def imported(self, file: str) -> list[Module]:
        """The modules that importing a file brings in, itself first."""
        if file not in self.modules:
            return []
        waiting = [self.modules[file]]
        found = dict.fromkeys(waiting)
        while waiting:
            module = waiting.pop()
            for name in sorted(module.imports):
                parts = name.split(".")
                for length in range(1, len(parts) + 1):
                    other = self.by_name.get(".".join(parts[:length]))
                    if other is not None and other not in found:
                        found[other] = None
                        waiting.append(other)
        return list(found)

    def module_of(self, name: str) -> tuple[Module | None, list[str]]:
        """Split a dotted name into the longest module that it begins with, and the rest."""
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            module = self.by_name.get(".".join(parts[:length]))
            if module is not None:
                return module, parts[length:]
        return None, parts

    def canonical(self, name: str) -> str:
        """Follow a name through the modules that only pass it on, to where it is from."""
        seen: set[str] = set()
        while name not in seen:
            seen.add(name)
            module, rest = self.module_of(name)
            if module is None or not rest:
                return name
            if rest[0] in module.names and rest[0] not in module.aliases:
                return name
            if rest[0] in module.aliases:
                name = ".".join([module.aliases[rest[0]], *rest[1:]])
            elif module.stars:
                name = self._from_star(module, rest, seen) or name
        return name

    def _from_star(self, module: Module, rest: list[str], seen: set[str]) -> str | None:
        for star in module.stars:
            other = self.by_name.get(star)
            if other is None or rest[0] in other.names or rest[0] in other.aliases or other.stars:
                name = ".".join([star, *rest])
                if name not in seen:
                    return name
        return None

    def look_up(self, name: str) -> list[Unit]:
        """The units that a dotted name stands for; all of a file if it stands for the file."""
        module, rest = self.module_of(self.canonical(name))
        if module is None:
            return []
        return module.names.get(rest[0], []) if rest else module.units


def _parsed(file: str, text: str) -> Module | None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names = _import_names(file)
    name = names[-1] if names else ""
    package = name if file.endswith("__init__.py") else name.rpartition(".")[0]
    return Module(file, package, text, tree)


def _import_names(file: str) -> list[str]:
    """The dotted names that a file can be imported by; the last is the shortest."""
    names: list[str] = []
    for root in IMPORT_ROOTS:
        if file.startswith(root):
            path = PurePosixPath(file.removeprefix(root)).with_suffix("")
            parts = path.parts[:-1] if path.name == "__init__" else path.parts
            if parts:
                names.append(".".join(parts))
    return names


def _bind(module: Module) -> None:
    for statement in module.tree.body:
        unit = Unit(module, statement)
        module.units.append(unit)
        for name in _bound_names(statement):
            module.names.setdefault(name, []).append(unit)
        for node in _outside_functions(statement):
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
    """The name that `F = torch.nn.functional` at the top of a file makes F another name for."""
    if isinstance(node, ast.Name):
        return module.aliases.get(node.id)
    if isinstance(node, ast.Attribute) and (base := _dotted(node.value, module)):
        return f"{base}.{node.attr}"
    return None


def _outside_functions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Walk what runs when the file is imported, without the bodies of functions and classes."""
    yield statement
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.stmt):
                yield from _outside_functions(child)
            elif isinstance(child, ast.ExceptHandler | ast.match_case):
                for inner in child.body:
                    yield from _outside_functions(inner)


def _bound_names(statement: ast.stmt) -> set[str]:
    names: set[str] = set()
    for node in _outside_functions(statement):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.stmt) and not isinstance(node, ast.Import | ast.ImportFrom):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    names |= {
                        inner.id
                        for inner in ast.walk(child)
                        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
                    }
    return names


def import_aliases(node: ast.AST, package: str) -> dict[str, str]:
    """What the names that an import binds stand for."""
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


class _Reader(ast.NodeVisitor):
    """Fill one unit with what it mentions and refers to."""

    def __init__(self, unit: Unit, source: Source) -> None:
        self.unit, self.source = unit, source
        self.module = unit.module
        # The names of each enclosing function: what they stand for, None if that is not known.
        self.scopes: list[dict[str, str | None]] = []

    def read(self) -> None:
        self.visit(self.unit.statement)

    # --- what an expression stands for ---

    def resolve(self, node: ast.expr) -> str | None:
        """The dotted name that an expression stands for; None if that cannot be told."""
        if isinstance(node, ast.Name):
            return self.resolve_name(node.id)
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value)
            return self.source.canonical(f"{base}.{node.attr}") if base else None
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return self.resolve_entry(node.value, node.slice.value)
        if isinstance(node, ast.Call):
            return self.resolve_call(node)
        if isinstance(node, ast.NamedExpr):
            return self.resolve(node.value)
        return None

    def resolve_name(self, name: str) -> str | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        if name in self.module.aliases:
            return self.source.canonical(self.module.aliases[name])
        own = _import_names(self.module.file)
        if name in self.module.names and own:
            return f"{own[-1]}.{name}"
        if hasattr(builtins, name):
            return f"builtins.{name}"
        if self.module.stars and own:
            return self.source.canonical(f"{own[-1]}.{name}")
        return None

    def resolve_entry(self, container: ast.expr, key: object) -> str | None:
        """`sys.modules["torch"]`, `vars(torch)["softmax"]`, `torch.__dict__["softmax"]`."""
        base = self.resolve(container)
        if base is None or not isinstance(key, str):
            return None
        if base == "sys.modules":
            return key
        return f"{base.removesuffix('.__dict__')}.{key}" if base.endswith(".__dict__") else None

    def resolve_call(self, node: ast.Call) -> str | None:
        function = self.resolve(node.func)
        constants = [a.value if isinstance(a, ast.Constant) else None for a in node.args]
        first, second = (*constants, None, None)[:2]
        if function in ("importlib.import_module", "builtins.__import__"):
            return first if isinstance(first, str) else None
        if function == "builtins.getattr" and isinstance(second, str):
            base = self.resolve(node.args[0])
            return self.source.canonical(f"{base}.{second}") if base else None
        if function == "builtins.vars" and node.args:
            base = self.resolve(node.args[0])
            return f"{base}.__dict__" if base else None
        return None

    # --- noting ---

    def note(self, name: str, node: ast.expr, is_certain: bool = True) -> None:
        is_assigned = isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)
        if self.source.module_of(name)[0] is not None:
            self.unit.refers_to.append(name)
        else:
            self.unit.mentions.append(
                Mention(name, self.module.file, node.lineno, is_certain, is_assigned)
            )

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            return
        if name := self.resolve_name(node.id):
            self.note(name, node)
        if not any(node.id in scope for scope in self.scopes):
            # A name may be imported and, where that fails, be defined: it stands for both.
            self.unit.own_names.append(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.unit.attributes.append(Mention(node.attr, self.module.file, node.lineno))
        if name := self.resolve(node):
            self.note(name, node)
            return
        is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        if not is_own and isinstance(node.ctx, ast.Load):
            self.note(f"torch.Tensor.{node.attr}", node, is_certain=False)
        self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if name := self.resolve(node):
            self.note(name, node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        function = self.resolve(node.func)
        if name := self.resolve(node):
            self.note(name, node)
        elif function in ("builtins.getattr", "builtins.setattr", "builtins.delattr") and node.args:
            base = self.resolve(node.args[0])
            if base and function == "builtins.getattr":
                self.note(f"{base}.*", node)
            elif base:
                self.unit.mentions.append(
                    Mention(f"{base}.*", self.module.file, node.lineno, is_assigned=True)
                )
        elif function == "importlib.import_module":
            self.note("importlib.import_module.*", node)
        if function in ("builtins.isinstance", "builtins.issubclass"):
            # To ask for a type is not to use it.
            self.visit(node.args[0]) if node.args else None
            return
        self.generic_visit(node)

    # --- scopes ---

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for outer in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults):
            if outer is not None:
                self.visit(outer)
        self._visit_body(node.args, node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for outer in (*node.args.defaults, *node.args.kw_defaults):
            if outer is not None:
                self.visit(outer)
        self._visit_body(node.args, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for outer in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
            self.visit(outer)
        # Names of a class body are not seen in its methods: they get no scope of their own.
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        # Annotations, here and in signatures, use nothing.
        self.visit(node.target)
        if node.value is not None:
            self.visit(node.value)

    def _visit_body(self, arguments: ast.arguments, body: Iterable[ast.AST]) -> None:
        given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        given += [rest for rest in (arguments.vararg, arguments.kwarg) if rest is not None]
        scope: dict[str, str | None] = {argument.arg: None for argument in given}
        self.scopes.append(scope)
        body = list(body)
        for node in body:
            for inner in _in_this_scope(node):
                scope.update(
                    {
                        name: self.source.canonical(origin)
                        for name, origin in import_aliases(inner, self.module.package).items()
                    }
                )
                for name, value in _assignments(inner):
                    scope[name] = scope.get(name) or (self.resolve(value) if value else None)
        for node in body:
            self.visit(node)
        self.scopes.pop()


def _in_this_scope(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _in_this_scope(child)


def _assignments(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """The names that a statement binds, and the expression that one becomes another name for."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, node.value
    elif isinstance(node, ast.NamedExpr | ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, node.value
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id, None
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name, None
