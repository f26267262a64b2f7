"""Fully sharded data parallel (Zhao et al. 2023, https://arxiv.org/abs/2304.11277).

Each process holds a shard of every weight, of its gradient and of its moments. The weights of a
block are gathered when the block is called and freed after it; each process gets its shard of the
averaged gradients. Read split.py first.
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from cs_basics.run.distributed import World
from cs_basics.run.parallel.split import BuildWhole, Split


class FSDP(Split):
    """Each process holds a shard of every weight, of its gradient and of the optimizer state.

    The optimizer gets the local shards as plain tensors and needs no support for sharding.

    Args:
        model: The model; sharded in place.
        optimizer: Optimizer of the model; its parameters are replaced by the local shards.
        world: The process group, two processes or more.
        build: As in Split.
    """

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, world: World, build: BuildWhole
    ) -> None:
        super().__init__(model, world, build)
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        mesh = init_device_mesh(next(model.parameters()).device.type, (world.size,))
        for block in model.layers:  # pyright: ignore[reportGeneralTypeIssues]
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        if hasattr(model, "hidden"):
            # The chunked loss calls `hidden` instead of `forward`.
            register_fsdp_forward_method(model, "hidden")
        # A tied weight has two names, and the optimizer the first of them.
        sharded = dict(model.named_parameters(remove_duplicate=False))
        self._sharded = cast(dict[str, DTensor], sharded)
        for group in optimizer.param_groups:
            group["params"] = [self._held(names[id(parameter)]) for parameter in group["params"]]

    def _held(self, name: str) -> Tensor:
        """Return the local shard of a weight for the optimizer; called once for each weight."""
        with torch.no_grad():
            part = self._sharded[name].to_local()
        self.name_of[id(part)] = name
        return part

    def clip(self, optimizer: Optimizer, max_norm: float) -> float:
        """Clip the gradients, which are averaged already; return their global norm."""
        parts = [part for group in optimizer.param_groups for part in group["params"]]
        for part in parts:
            whole = self._sharded[self.name_of[id(part)]]
            assert isinstance(whole.grad, DTensor)
            part.grad = whole.grad.to_local()
            # Not left to `model.zero_grad()`: after a forward without a backward the model's own
            # parameters are the gathered ones, and the next gradient would be added to this one.
            whole.grad = None
        return self.clip_parts(parts, [], max_norm)

    def gathered(self, part: Tensor, name: str) -> Tensor:
        """Gather a tensor from its shards."""
        like = self._sharded[name]
        mesh, placements = like.device_mesh, like.placements
        sharded = DTensor.from_local(
            part, mesh, placements, run_check=False, shape=like.shape, stride=like.stride()
        )
        return sharded.full_tensor()

    def share(self, whole: Tensor, name: str) -> Tensor:
        """Return the local shard of a whole tensor."""
        like = self._sharded[name]
        return distribute_tensor(
            whole, like.device_mesh, like.placements, src_data_rank=None
        ).to_local()
