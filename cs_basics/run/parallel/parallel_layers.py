"""Linear layers and embeddings of which each process holds a part (tensor parallelism).

Shoeybi et al. 2019, sec. 3 (https://arxiv.org/abs/1909.08053). A pair of products needs one sum
over the processes: the first is split by its outputs (ColumnParallelLinear), so that each process
has some of the hidden features, such as some heads; the second by its inputs (RowParallelLinear),
so that each has a part of the sum. Columns and rows are those of W^T in x W^T.

tensor_parallel.py puts one of these in the place of each layer of the book.
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx


class _CopyToAll(torch.autograd.Function):
    """The identity on an input that all processes share: its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor) -> Tensor:  # noqa: ARG004
        return x.view_as(x)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> Tensor:  # noqa: ARG004  # pyright: ignore[reportIncompatibleMethodOverride]
        return summed(grad)


class _SumOverAll(torch.autograd.Function):
    """The sum of all processes' inputs: the gradient goes to each of them unchanged."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor) -> Tensor:  # noqa: ARG004
        return summed(x)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> Tensor:  # noqa: ARG004  # pyright: ignore[reportIncompatibleMethodOverride]
        return grad


class _Gather(torch.autograd.Function):
    """All inputs side by side along the last axis; each process gets its part of the gradient."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, total: int) -> Tensor:  # noqa: ARG004
        return gather(x, -1, total)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, None]:  # noqa: ARG004  # pyright: ignore[reportIncompatibleMethodOverride]
        return shard(grad, -1), None


class Sharded(nn.Module):
    """A layer of which this process holds a part.

    Args:
        weight: This process's shard of the weight.
        num_rows: Rows of the whole weight.
    """

    def __init__(self, weight: nn.Parameter, num_rows: int) -> None:
        super().__init__()
        self.weight, self.num_rows = weight, num_rows


class ColumnParallelLinear(Sharded):
    """x W^T for some rows of W, that is, some of the outputs."""

    def forward(self, x: Tensor) -> Tensor:
        """Return this process's outputs, (..., d_in) -> (..., its share of d_out)."""
        return _CopyToAll.apply(x) @ self.weight.T  # pyright: ignore[reportReturnType, reportOptionalOperand, reportOperatorIssue]


class RowParallelLinear(Sharded):
    """x W^T for some columns of W, summed over all processes."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the whole result, (..., this process's share of d_in) -> (..., d_out)."""
        return _SumOverAll.apply(x @ self.weight.T)  # pyright: ignore[reportReturnType]


class VocabParallelHead(ColumnParallelLinear):
    """The output head: each process scores its part of the vocabulary, then all get all scores."""

    def forward(self, x: Tensor) -> Tensor:
        """Return all logits, (..., d_model) -> (..., vocab_size)."""
        return _Gather.apply(super().forward(x), self.num_rows)  # pyright: ignore[reportReturnType]


class VocabParallelEmbedding(Sharded):
    """The embedding: each process looks up its own ids, others give 0; the sum has all of them."""

    def forward(self, token_ids: Tensor) -> Tensor:
        """Return the vectors of the ids, (...) -> (..., d_model)."""
        sizes = shares(self.num_rows)
        rank = dist.get_rank()
        own = token_ids - sum(sizes[:rank])
        is_known = (own >= 0) & (own < sizes[rank])
        rows = self.weight[torch.where(is_known, own, 0)]
        return _SumOverAll.apply(rows * is_known.unsqueeze(-1))  # pyright: ignore[reportReturnType]


def shares(total: int) -> list[int]:
    """How many of `total` things each process has; the first ones share out the remainder."""
    each, more = divmod(total, dist.get_world_size())
    return [each + (rank < more) for rank in range(dist.get_world_size())]


def shard(whole: Tensor, axis: int) -> Tensor:
    """This process's shard of a tensor along an axis, with memory of its own."""
    return whole.split(shares(whole.shape[axis]), axis)[dist.get_rank()].clone()


def gather(part: Tensor, axis: int, total: int) -> Tensor:
    """Put the shards of all processes together again, the inverse of `shard`."""
    sizes = shares(total)
    # gloo needs equal sizes: shorter shards are padded before the call and cut back after it.
    shape = list(part.shape)
    shape[axis] = sizes[0]
    filled = part.new_zeros(shape)
    filled.narrow(axis, 0, part.shape[axis]).copy_(part)
    parts = [torch.empty_like(filled) for _ in sizes]
    dist.all_gather(parts, filled)
    kept = [one.narrow(axis, 0, size) for one, size in zip(parts, sizes, strict=True)]
    return torch.cat(kept, axis)


def summed(x: Tensor) -> Tensor:
    """The sum of all processes' tensors."""
    total = x.contiguous().clone()
    dist.all_reduce(total)
    return total
