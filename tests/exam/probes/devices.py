"""Move a module or an optimizer to another device, and see what it leaves behind."""

import copy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from probes.model import Plain, tensors


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
        with put_back(module, *tree_leaves((args, kwargs))):
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


@contextmanager
def put_back(*reached: object) -> Iterator[None]:
    """Leave modules, their classes and files as they were: later calls may share what they hold."""
    parts = {part for one in reached if isinstance(one, nn.Module) for part in one.modules()}
    classes = {kind for part in parts for kind in type(part).__mro__}
    own = {kind for kind in classes if kind.__module__.partition(".")[0] not in LIBRARIES}
    files = {sys.modules[kind.__module__] for kind in own if kind.__module__ in sys.modules}
    before = [
        (owner, name, held, copy.copy(held) if isinstance(held, dict | list) else None)
        for owner in (*parts, *own, *files)
        for name, held in attributes(owner).items()
    ]
    known = {(id(owner), name) for owner, name, _, _ in before}
    try:
        yield
    finally:
        for owner in (*parts, *own, *files):
            for name in attributes(owner):
                if (id(owner), name) not in known:
                    delattr(owner, name)
        for owner, name, held, content in before:
            if attributes(owner).get(name) is not held:
                setattr(owner, name, held)
            if isinstance(held, dict):
                held.clear()
                held.update(content)
            elif isinstance(held, list):
                held[:] = content


LIBRARIES = ("torch", "builtins")


def attributes(owner: object) -> dict[str, Any]:
    return {name: held for name, held in vars(owner).items() if not name.startswith("__")}


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
