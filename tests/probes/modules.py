"""Look at the modules that an adapter constructs, before it loads weights into them."""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from probes.model import Plain, plain, tensors


def construction(adapters: Any, function: str, arguments: Plain) -> list[Plain]:
    """Call an adapter and see each module as its constructor left it, and as weights are loaded.

    Adapters hand out no modules. But each constructor returns while the profiler looks on, and at
    that moment the module holds its initial weights; an initialisation from outside (model.apply)
    is over when load_state_dict is called. An implementation without modules shows nothing. What
    torch.empty left as it was is nan.
    """
    made: list[Plain] = []

    def look(module: nn.Module, is_loading: bool) -> None:
        if "_parameters" not in vars(module):
            return  # Its constructor ended with an exception before it had begun.
        parameters = [plain(parameter) for parameter in module.parameters()]
        saved = module.state_dict()
        learned = {name for name, _ in module.named_parameters(remove_duplicate=False)}
        made.append(
            {
                "is_loading": is_loading,
                "parameters": parameters,
                "num_learned": sum(p.numel() for p in module.parameters() if p.requires_grad),
                "saved_buffers": [plain(saved[name]) for name in saved if name not in learned],
            }
        )

    with watching_constructors(look), unwritten_memory_as_nan():
        getattr(adapters, function)(**tensors(arguments, {}))
    return made


class StayedBehindError(Exception):
    """An operation was given tensors of two devices."""


class OneDevice(TorchDispatchMode):
    """Raises where an operation mixes tensors on "meta" with others, as a GPU would.

    Tensors on "meta" have no values, and PyTorch itself lets some operations mix them.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        # Single numbers may be anywhere, and so may what is copied, or the places of an index.
        behind = [tensor for tensor in given if tensor.ndim and not tensor.is_meta]
        is_transfer = given and given[0].is_meta and func.overloadpacket in TRANSFERS
        if behind and len(behind) < len([t for t in given if t.ndim]) and not is_transfer:
            name, shape = func.overloadpacket.__name__, tuple(behind[0].shape)
            raise StayedBehindError(f"{name} met a tensor of shape {shape} on the old device")
        return func(*args, **(kwargs or {}))


TRANSFERS = (torch.ops.aten.copy_, torch.ops.aten.index, torch.ops.aten.index_put_)


def follow(adapters: Any, function: str, arguments: Plain) -> str:
    """Call an adapter, move the module that gave its answer elsewhere, and call that again there.

    Returns:
        What met tensors that were left behind; "" if nothing was, or no module answered.
    """
    calls: list[tuple[nn.Module, tuple[Any, ...], dict[str, Any]]] = []

    def note(module: nn.Module, args: Any, kwargs: Any, _: object) -> None:
        calls.append((module, args, kwargs))

    handle = register_module_forward_hook(note, with_kwargs=True)
    try:
        getattr(adapters, function)(**tensors(arguments, {}))
    finally:
        handle.remove()
    if not calls:
        return ""
    module, args, kwargs = calls[-1]  # The outermost one ends last.
    try:
        move(module)
        given = {name: moved(value) for name, value in kwargs.items()}
        with OneDevice():
            module(*map(moved, args), **given)
    except StayedBehindError as error:
        return str(error)
    except Exception:
        return ""  # Code that looks at values cannot run without them, no fault of its own.
    return ""


def step_elsewhere(adapters: Any, options: dict[str, Any]) -> str:
    """Step an optimizer twice whose parameter and gradient are on another device.

    Returns:
        What met tensors that were made on the old device; "" if nothing did.
    """
    parameter = nn.Parameter(torch.ones(3, device="meta"))
    parameter.grad = torch.ones(3, device="meta")
    optimizer = adapters.get_adamw_cls()([parameter], **options)
    try:
        with OneDevice():
            optimizer.step()
            optimizer.step()
    except StayedBehindError as error:
        return str(error)
    except Exception:
        return ""  # Code that looks at values cannot run without them, no fault of its own.
    return ""


def move(module: nn.Module) -> None:
    """Move what `.to` moves, and the devices that modules have noted for what they make later."""
    module.to("meta")
    for part in module.modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, torch.device) or ("device" in name and value == "cpu"):
                setattr(part, name, torch.device("meta"))


def moved(value: Any) -> Any:
    """Move tensors and modules, also those in lists, tuples and dicts, such as tables of RoPE."""

    def leaf_moved(leaf: Any) -> Any:
        if isinstance(leaf, nn.Module):
            move(leaf)
        return leaf.to("meta") if isinstance(leaf, torch.Tensor) else leaf

    return tree_map(leaf_moved, value)


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
