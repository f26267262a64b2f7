"""Counters of uncompiled code: operations, passes over memory, bytes kept for the backward."""

from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lab.claims.rules import Figures


class Traffic(TorchDispatchMode):
    """Count the operations that run below autograd and the bytes that they read and write.

    Views cost nothing and are left out; an axis that is only repeated counts once.

    Args:
        size: Numbers in x. over_x: operations that read or write a tensor of this size; reductions:
            of these, the ones whose result is smaller; allocated: results of this size that are
            not written over something.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.counts = size, Counter[str]()

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 (as in the base class)
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            read, written = (
                [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]
                for tree in (args, result)
            )
            made = sum(tensor.numel() == self.size for tensor in written)
            is_whole = any(tensor.numel() == self.size for tensor in [*read, *written])
            self.counts.update(
                operations=1,
                over_x=is_whole,
                reductions=is_whole and all(tensor.numel() < self.size for tensor in written),
                allocated=0 if func._schema.is_mutable else made,
                bytes=sum(map(distinct_bytes, [*read, *written])),
            )
        return result


def distinct_bytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor, leaving out axes that only repeat its numbers."""
    axes = zip(tensor.shape, tensor.stride(), strict=True)
    return tensor.element_size() * prod(size for size, stride in axes if stride)


def traffic(function: Callable[[], object], x: Tensor) -> Figures:
    """Run an eager function of x and return what it did; a pass reads or writes all of x."""
    with Traffic(x.numel()) as counted:
        function()
    return {**counted.counts, "passes": round(counted.counts["bytes"] / x.nbytes, 1)}


def kept_bytes(function: Callable[[], Tensor], parameters: Sequence[Tensor]) -> int:
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
