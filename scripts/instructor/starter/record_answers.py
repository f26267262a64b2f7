"""A pytest plugin that keeps what oracles and mistakes answer during the examination.

Used by make_starter.py: python -m pytest tests -p record_answers --record-answers FILE
"""

import contextlib
import functools
import importlib
import pkgutil
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import conventions
import numpy as np
import oracles
import pytest
import stored  # pyright: ignore[reportMissingImports]  beside it at run time

WRITER = stored.Writer()
# How deep in calls: what an oracle asks of a function that it was given is not kept.
DEPTH = [0]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the path to write to."""
    parser.addoption("--record-answers", type=Path, required=True)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Stand between the examination and what it asks, before its modules are imported."""
    del config
    modules = [
        importlib.import_module(f"{package}.{info.name}")
        for package in ("oracles", "mistakes")
        for info in pkgutil.iter_modules(importlib.import_module(package).__path__)
    ]
    for module in modules:
        replace_by_recording(module)
    compare = importlib.import_module("compare")
    # expect_gradients calls the first.
    wrappers = {
        "expect_close": with_mistakes,
        "expect_equal": with_mistakes,
        "noting": with_control,
    }
    for name, wrapper in wrappers.items():
        setattr(compare, name, wrapper(getattr(compare, name)))


def replace_by_recording(module: ModuleType) -> None:
    """Give whoever imports a module from now on a copy of it whose functions keep their answers.

    The functions themselves still call each other directly, some of them millions of times.
    """
    recording = ModuleType(module.__name__)
    for name, value in vars(module).items():
        is_own = getattr(value, "__module__", None) == module.__name__
        is_function = is_own and callable(value) and not isinstance(value, type)
        if is_function and name not in stored.COMPUTED.get(module.__name__, ()):
            value = recorded(f"{module.__name__}.{name}", value)
        setattr(recording, name, value)
    sys.modules[module.__name__] = recording
    package, _, name = module.__name__.rpartition(".")
    setattr(sys.modules[package], name, recording)


def recorded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Keep every answer to a call from outside."""

    @functools.wraps(function)
    def answer(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  as the function
        if DEPTH[0]:
            return function(*args, **kwargs)
        key = stored.key_of(name, args, kwargs)
        DEPTH[0] += 1
        try:
            result = function(*args, **kwargs)
        finally:
            DEPTH[0] -= 1
        WRITER.add(key, result, "float32" if name.startswith("mistakes.") else None)
        if name.startswith("oracles."):
            add_without_conventions(name, function, args, kwargs)
        return result

    answer.stored_name = name  # pyright: ignore[reportAttributeAccessIssue]
    return answer


def add_without_conventions(
    name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Keep what an oracle answers without conventions of the class, where that is different."""
    usual = WRITER.answers[stored.key_of(name, args, kwargs)]
    for missed in conventions.subsets(oracles.OF_CLASS):
        DEPTH[0] += 1
        try:
            with conventions.without(missed):
                other, key = (
                    function(*args, **kwargs),
                    stored.key_of(stored.by_now(name), args, kwargs),
                )
        finally:
            DEPTH[0] -= 1
        if WRITER.encode(other, None) != usual:
            WRITER.add(key, other)


def with_mistakes(check: Callable[..., None]) -> Callable[..., None]:
    """Ask for the answers under each mistake also where nothing is wrong."""

    @functools.wraps(check)
    def checked(
        *args: Any,  # noqa: ANN401  as the check
        mistakes: Callable[[], Mapping[str, Any]] = dict,
        trials: Callable[[], Sequence[Any]] = tuple,
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        check(*args, mistakes=mistakes, trials=trials, **kwargs)
        trials()
        expected = args[1]
        if isinstance(expected, np.ndarray) and expected.size == 0:
            return  # There is no value that could be wrong.
        # Where a mistake has no answer, as where it divides by 0, there is none to store.
        with contextlib.suppress(ArithmeticError):
            mistakes()

    return checked


def with_control(noting: Callable[..., Any]) -> Callable[..., Any]:
    """Make the other call of a hint also where nothing is wrong: it may ask an oracle."""

    @functools.wraps(noting)
    @contextlib.contextmanager
    def noted(
        difference: str, control: Callable[[], object] = lambda: None
    ) -> Generator[None, None, None]:
        with noting(difference, control):
            yield
        with contextlib.suppress(Exception, pytest.fail.Exception):
            control()

    return noted


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the answers, if nothing failed."""
    if session.testsfailed == 0:
        path: Path = session.config.option.record_answers
        WRITER.write(path)
