"""All files of a submission together: which unit leads to which, across files and imports."""

import ast
from collections.abc import Iterable, Iterator, Mapping

from cs_grader.result import Excerpt
from cs_grader.rules.modules import Module, Unit, bind, import_names, parse

MAX_LINES = 60


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
            if file.endswith(".py") and (module := parse(file, files[file])):
                self.modules[file] = module
                for name in import_names(file):
                    self.by_name.setdefault(name, module)
        for module in self.modules.values():
            bind(module)

    def units(self) -> Iterator[Unit]:
        """All units of all files."""
        for module in self.modules.values():
            yield from module.units

    def reachable(self, file: str, names: Iterable[str]) -> list[Unit]:
        """Every unit reachable from those that bind `names` in `file`, themselves included."""
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

    def solution(self, problem: str, file: str, names: Iterable[str]) -> Iterator[Excerpt]:
        """The function or class that solves a problem: the first that its adapters lead to, if any.

        Args:
            problem: Its name.
            file: Where the adapters are.
            names: Theirs.
        """
        # In the order in which they are reached: the adapter, what it names, what that names.
        kinds = ast.FunctionDef | ast.ClassDef
        units = [one for one in self.reachable(file, names) if isinstance(one.statement, kinds)]
        # A problem that is solved in its adapter leads to nothing elsewhere.
        for unit in ([one for one in units if one.module.file != file] or units)[:1]:
            first = unit.statement.lineno
            lines = unit.module.text.splitlines()[first - 1 : unit.statement.end_lineno]
            more = [f"... {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else []
            text = "\n".join([*lines[:MAX_LINES], *more])
            yield Excerpt(problem=problem, file=unit.module.file, line=first, text=text)

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
