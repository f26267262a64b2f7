"""What a submission's source refers to, by resolving names and not by searching for words.

`F.silu`, `torch.nn.functional.silu`, a name from `from torch.nn.functional import silu as act` and
`getattr(F, "silu")` are all a reference to `torch.nn.functional.silu`; a comment, a string and a
class of one's own called `SiLU` are not.

A unit refers to names of other packages and to other units; what an adapter may come to call is
what can be reached from its unit.
"""

import ast
import builtins
from collections.abc import Iterable, Mapping

from cs_grader.rules.modules import (
    Mention,
    Unit,
    bound_by,
    import_aliases,
    import_names,
    in_this_scope,
)
from cs_grader.rules.source import Source


def read_source(files: Mapping[str, str]) -> Source:
    """Read all Python files of a submission.

    Args:
        files: Text by path, relative to the submission's root and with forward slashes. A file
            that does not parse is left out.
    """
    source = Source(files)
    for unit in source.units():
        _Reader(unit, source).read()
    return source


# What takes or changes an attribute of any name, and whether it changes it.
OF_ANY_NAME = {
    "builtins.getattr": False,
    "builtins.vars": False,
    "builtins.setattr": True,
    "builtins.delattr": True,
}


class _Reader(ast.NodeVisitor):
    """Fill one unit with what it mentions and refers to."""

    def __init__(self, unit: Unit, source: Source) -> None:
        self.unit, self.source = unit, source
        self.module = unit.module
        # For each enclosing function, what its names stand for; None if that is not known.
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
        own = import_names(self.module.file)
        if name in self.module.names and own:
            return f"{own[-1]}.{name}"
        if hasattr(builtins, name):
            return f"builtins.{name}"
        if self.module.stars and own:
            return self.source.canonical(f"{own[-1]}.{name}")
        return None

    def resolve_call(self, node: ast.Call) -> str | None:
        function = self.resolve(node.func)
        constants = [a.value if isinstance(a, ast.Constant) else None for a in node.args]
        first, second = (*constants, None, None)[:2]
        if function in ("importlib.import_module", "builtins.__import__"):
            return first if isinstance(first, str) else None
        if function == "builtins.getattr" and isinstance(second, str):
            base = self.resolve(node.args[0])
            return self.source.canonical(f"{base}.{second}") if base else None
        return None

    # --- noting ---

    def note(
        self, name: str, node: ast.expr, is_certain: bool = True, is_assigned: bool = False
    ) -> None:
        is_assigned |= isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)
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
            # A name may be imported and, where that fails, defined: it stands for both.
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

    def visit_Call(self, node: ast.Call) -> None:
        function = self.resolve(node.func)
        if name := self.resolve(node):
            self.note(name, node)
        elif function in OF_ANY_NAME and node.args and (base := self.resolve(node.args[0])):
            # Which attribute, only running it tells.
            self.note(f"{base}.*", node, is_assigned=OF_ANY_NAME[function])
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
        # A class body gets no scope of its own, since its methods do not see its names.
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
            for inner in in_this_scope(node):
                scope.update(
                    {
                        name: self.source.canonical(origin)
                        for name, origin in import_aliases(inner, self.module.package).items()
                    }
                )
                for name in bound_by(inner):
                    scope.setdefault(name, None)
        for node in body:
            self.visit(node)
        self.scopes.pop()
