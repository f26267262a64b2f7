"""Counters of uncompiled code: operations, passes over memory, bytes kept for the backward."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Traffic(TorchDispatchMode):
    """Count the operations that run below autograd and the bytes that they read and write.

    Views cost nothing and are left out; an axis that is only repeated counts once.

    Args:
        size: Numbers in x; operations that read or write a tensor of this size are also counted by
            themselves.
    """

    def __init__(self, size: int = 0) -> None:
        super().__init__()
        self.size = size
        self.num_operations = 0
        self.num_whole = 0
        """Operations that go over all of x."""
        self.num_reductions = 0
        """Of these, the ones whose result is smaller than x."""
        self.num_allocated = 0
        """Results of the size of x that are not written over something."""
        self.num_bytes = 0

    @property
    def num_passes(self) -> float:
        """Reads and writes of a float32 tensor of this size."""
        return self.num_bytes / (4 * self.size)

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 (as in the base class)
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            read = [leaf for leaf in tree_leaves(args) if isinstance(leaf, Tensor)]
            written = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
            self.num_operations += 1
            if not func._schema.is_mutable:
                self.num_allocated += sum(tensor.numel() == self.size for tensor in written)
            self.num_bytes += sum(map(distinct_bytes, [*read, *written]))
            is_whole = any(tensor.numel() == self.size for tensor in [*read, *written])
            self.num_whole += is_whole
            self.num_reductions += is_whole and all(t.numel() < self.size for t in written)
        return result


def distinct_bytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor, leaving out axes that only repeat its numbers."""
    num_bytes = tensor.element_size()
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        num_bytes *= size if stride else 1
    return num_bytes


def traffic(function: Callable[[], object], size: int = 0) -> Traffic:
    """Run an eager function and return what it did."""
    with Traffic(size) as counted:
        function()
    return counted


def kept_bytes(function: Callable[[], Tensor], parameters: list[nn.Parameter]) -> int:
    """Return the bytes that autograd keeps between the forward and the backward of a function.

    Storage that several operations keep counts once; parameters, which are there anyway, do not.
    """
    kept: dict[int, int] = {}
    known = {parameter.untyped_storage().data_ptr() for parameter in parameters}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = function()
    assert result.requires_grad  # Held until here, so that no storage is used twice.
    return sum(kept.values())
