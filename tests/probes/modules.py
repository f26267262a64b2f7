"""Look at the modules that an adapter constructs, before it loads weights into them."""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import nn

from probes.model import Plain, plain, tensors


def construction(adapters: Any, function: str, arguments: Plain) -> list[Plain]:
    """Call an adapter and see each module as its own constructor left it.

    Adapters hand out no modules. But each constructor returns while the profiler looks on, and at
    that moment the module holds its initial weights. An implementation without modules shows
    nothing.
    """
    made: list[Plain] = []

    def look(module: nn.Module) -> None:
        parameters = [plain(parameter) for parameter in module.parameters()]
        saved = module.state_dict()
        learned = {name for name, _ in module.named_parameters(remove_duplicate=False)}
        made.append(
            {
                "parameters": parameters,
                "saved_buffers": [plain(saved[name]) for name in saved if name not in learned],
            }
        )

    with watching_constructors(look):
        getattr(adapters, function)(**tensors(arguments, {}))
    return made


def constructor(module: nn.Module) -> object:
    return getattr(inspect.unwrap(type(module).__init__), "__code__", None)


@contextmanager
def watching_constructors(look: Callable[[nn.Module], None]) -> Iterator[None]:
    previous = sys.getprofile()

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "return" or code.co_name != "__init__" or not code.co_varnames:
            return
        module = frame.f_locals.get(code.co_varnames[0])
        # The constructor of the class itself, not of a base class which it goes on from.
        if isinstance(module, nn.Module) and constructor(module) is code:
            sys.setprofile(None)
            with torch.no_grad():
                look(module)
            sys.setprofile(profile)

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(previous)
