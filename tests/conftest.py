"""The examination's fixtures: where a probe runs, and what it is fed with."""

import copy
import importlib
import random
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ADAPTER_PREFIXES = ("run_", "get_")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--exam-seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of the examination's inputs (0 is the public one; any other must do as well)",
    )


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> list[int]:
    """The examination's seed and the item's name: every item draws its own inputs."""
    return [
        request.config.getoption("--exam-seed"),
        zlib.crc32(request.node.name.encode()),
    ]


@pytest.fixture
def rng(seed: list[int]) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(scope="session")
def adapters() -> ModuleType:
    try:
        return importlib.import_module("adapters")
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{frame.filename}, line {frame.lineno}"
        reason = f"{type(error).__name__}: {error} ({where})"
        return pytest.fail(f"tests/adapters.py cannot be imported: {reason}", pytrace=False)


@pytest.fixture
def observe(adapters: ModuleType, seed: list[int]) -> Callable[..., Any]:
    """Run `probe(adapters, **inputs)` and return what it saw.

    Probes are top-level functions and exchange plain data only, so that a grader can replace this
    fixture by one that ships them to another process.
    """

    def run(probe: Callable[..., Any], **inputs: Any) -> Any:
        __tracebackhide__ = True
        check_plain(inputs)
        seed_everything(zlib.crc32(repr(seed).encode()))
        try:
            with warnings.catch_warnings():
                # Warnings of a submission (an unclosed file, say) are shown, not held against it.
                warnings.simplefilter("default")
                seen = probe(adapters, **copy.deepcopy(inputs))
        except NotImplementedError as error:
            name = adapter_in(error)
        except AttributeError as error:
            if error.obj is not adapters:
                raise
            name = error.name
        except Exception as error:
            error.add_note(f"given {', '.join(described(inputs))}")
            raise
        else:
            check_plain(seen)
            return seen
        return pytest.fail(f"not started: {name}", pytrace=False)

    return run


def adapter_in(error: BaseException) -> str:
    """Name the adapter that an exception came through."""
    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    return next((name for name in frames if name.startswith(ADAPTER_PREFIXES)), "an adapter")


def described(inputs: dict[str, Any]) -> Iterator[str]:
    """Say in a few words what a failing call was given."""
    for name, value in inputs.items():
        if name in ("arguments", "weights"):
            yield from described(value)
        elif isinstance(value, np.ndarray):
            yield f"{name}: {value.dtype} of shape {value.shape}"
        elif not isinstance(value, list | dict) and value is not None:
            yield f"{name} = {value!r:.80}"


def seed_everything(seed: int) -> None:
    """Make a submission's own randomness repeatable; it may draw from any of these."""
    import torch

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)


def check_plain(value: Any) -> None:
    """Refuse what could not cross to another process as a header and raw bytes."""
    if isinstance(value, dict):
        check_plain([*value.keys(), *value.values()])
    elif isinstance(value, list | tuple):
        for item in value:
            check_plain(item)
    elif not isinstance(value, np.ndarray | np.number | int | float | str | bytes | None):
        msg = f"a probe exchanges plain data only, not {type(value).__name__}"
        raise TypeError(msg)
