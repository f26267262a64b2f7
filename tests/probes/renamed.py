"""Adapters whose arguments have other names than those by which probes call them."""

import functools
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any


def renamed(adapters: ModuleType, names: Mapping[str, str]) -> ModuleType:
    """Let adapters be called by the usual names of their arguments.

    Args:
        adapters: The module.
        names: The name that a submission's adapters have for an argument, by the usual name.
    """
    if not names:
        return adapters
    found = ModuleType(adapters.__name__)
    found.__dict__.update(vars(adapters))
    for name, value in vars(adapters).items():
        if isinstance(value, FunctionType) and name.startswith("run_"):
            found.__dict__[name] = _called_otherwise(value, names)
    return found


def _called_otherwise(adapter: Callable[..., Any], names: Mapping[str, str]) -> Callable[..., Any]:
    @functools.wraps(adapter)
    def call(*args: Any, **kwargs: Any) -> Any:
        return adapter(*args, **{names.get(name, name): value for name, value in kwargs.items()})

    return call
