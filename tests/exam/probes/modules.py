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
    """Call an adapter and see each module as its constructor left it, and as weights are loaded.

    Adapters hand out no modules. But each constructor returns while the profiler looks on, and at
    that moment the module holds its initial weights; an initialisation from outside (model.apply)
    is over when load_state_dict is called. An implementation without modules shows nothing. What
    torch.empty left as it was is nan.
    """
    made: list[Plain] = []
    constructed: list[nn.Module] = []

    def look(module: nn.Module, is_loading: bool) -> None:
        if "_parameters" not in vars(module):
            return  # Its constructor ended with an exception before it had begun.
        if not is_loading:
            constructed.append(module)
        elif not any(module is one for one in constructed):
            return  # One that is kept holds the weights of an earlier call.
        # What lies on "meta" has no memory yet, and so no values.
        learns = (p for p in module.parameters() if p.requires_grad)
        parameters = [plain(p) for p in learns if not p.is_meta]
        state = module.state_dict()
        saved = {name: state[name] for name in state if not getattr(state[name], "is_meta", False)}
        named = module.named_parameters(remove_duplicate=False)
        learned = {name for name, p in named if p.requires_grad}
        made.append(
            {
                "is_loading": is_loading,
                "parameters": parameters,
                "num_hidden": sum(p.numel() for p in hidden_parameters(module)),
                "num_learned": sum(p.numel() for p in module.parameters() if p.requires_grad),
                "saved_buffers": [plain(saved[name]) for name in saved if name not in learned],
            }
        )

    with watching_constructors(look), unwritten_memory_as_nan():
        getattr(adapters, function)(**tensors(arguments, {}))
    return made


def hidden_parameters(module: nn.Module) -> list[nn.Parameter]:
    """Parameters of modules that a plain list, tuple or dict of any submodule holds."""
    held: list[Any] = []
    for value in (value for one in module.modules() for value in vars(one).values()):
        held += value.values() if type(value) is dict else value if type(value) is list else ()
        held += value if type(value) is tuple else ()
    found = {id(p): p for one in held if isinstance(one, nn.Module) for p in one.parameters()}
    for p in module.parameters():
        found.pop(id(p), None)
    return [*found.values()]


def constructor(module: nn.Module) -> object:
    return getattr(inspect.unwrap(type(module).__init__), "__code__", None)


@contextmanager
def unwritten_memory_as_nan() -> Iterator[None]:
    """Let torch.empty and its like hand out nan: what is never initialised is then seen."""
    mode = torch.get_deterministic_debug_mode()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(mode)


@contextmanager
def watching_constructors(look: Callable[[nn.Module, bool], None]) -> Iterator[None]:
    """Call `look` with each module as its constructor returns, and as it loads weights."""
    previous = sys.getprofile()

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code is nn.Module.load_state_dict.__code__:
            at(frame.f_locals["self"], is_loading=True)
        if event != "return" or code.co_name != "__init__" or not code.co_varnames:
            return
        module = frame.f_locals.get(code.co_varnames[0])
        # The constructor of the class itself, not of a base class which it goes on from.
        if isinstance(module, nn.Module) and constructor(module) is code:
            at(module, is_loading=False)

    def at(module: nn.Module, *, is_loading: bool) -> None:
        sys.setprofile(None)
        with torch.no_grad():
            look(module, is_loading)
        sys.setprofile(profile)

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(previous)
