"""Stand-ins for packages that a submission imports and that are not installed, or not allowed.

An import that fails takes the whole submission down, although most of it may never use the
package. A stand-in lets the import pass; using it then raises ModuleNotFoundError, which costs the
items that need it and no others.
"""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NoReturn


class Absent(ModuleType):
    """A package that is not there, or any name from it: it can be named, but not used."""

    is_importing = True
    """While modules are imported, calls (decorators, say) only give another stand-in."""
    refuse: Callable[[str], NoReturn]
    """Raises what is to be said of a package that is not allowed."""
    refused: Sequence[str] = ()
    """The packages that are not allowed."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> "Absent":
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def __call__(self, *_args: object, **_kwargs: object) -> "Absent":
        """Complain, unless it is a decorator or a constructor at import."""
        if not Absent.is_importing:
            self.complain()
        return Absent(f"{self.__name__}()")

    def complain(self) -> NoReturn:
        """Say what is missing, as the import would have done."""
        package = self.__name__.partition(".")[0]
        if package in Absent.refused:
            Absent.refuse(package)
        message = f"No module named {package!r}: not installed here ({self.__name__} is used)"
        raise ModuleNotFoundError(message, name=package)

    def __mro_entries__(self, _bases: object) -> tuple[type, ...]:
        return ()

    def __getitem__(self, _key: object) -> "Absent":
        return self

    def __or__(self, _other: object) -> "Absent":
        return self

    __ror__ = __or__

    def __enter__(self) -> "Absent":
        return self()

    def __exit__(self, *_: object) -> None:
        self.complain()

    def __iter__(self) -> NoReturn:
        self.complain()


class AbsentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds what nothing else has found, if it belongs to one of the absent packages."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = packages

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Answer for the absent packages and all that is in them."""
        del path, target
        if fullname.partition(".")[0] not in self.packages:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Absent:
        """Make the stand-in."""
        return Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Leave the stand-in as it is."""


def stand_in_for(packages: Sequence[str]) -> None:
    """Let these packages be imported although they are not there."""
    if packages:
        sys.meta_path.append(AbsentFinder(packages))


def refuse(packages: Sequence[str], refuse: Callable[[str], NoReturn]) -> None:
    """Put stand-ins in the place of packages, whether they are there or not.

    Args:
        packages: Their names.
        refuse: Called with the name of one that is used; raises.
    """
    if packages:
        Absent.refused, Absent.refuse = packages, staticmethod(refuse)
        sys.meta_path.insert(0, AbsentFinder(packages))
