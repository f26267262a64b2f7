"""Fully sharded data parallel (Zhao et al. 2023, https://arxiv.org/abs/2304.11277).

Each process holds a shard of every weight, of its gradient and of its moments. The weights of a
block are gathered when the block is called and freed after it; each process gets its shard of the
averaged gradients. Read distributed.py first.
"""

import math
from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from cs_basics.optim import clip_grad_norm
from cs_basics.run.checkpoint_file import Checkpoint
from cs_basics.run.distributed import (
    DDP,
    BuildWhole,
    Saved,
    World,
    map_optimizer_state,
)


class FSDP(DDP):
    """Each process holds a shard of every weight, of its gradient and of the optimizer state.

    The optimizer gets the local shards as plain tensors and needs no support for sharding.

    Args:
        model: The model; sharded in place.
        optimizer: Optimizer of the model; its parameters are replaced by the local shards.
        world: The process group, two processes or more.
        build: Returns a whole model and its optimizer on the CPU, into which checkpoints are read.
    """

    is_split = True

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, world: World, build: BuildWhole
    ) -> None:
        super().__init__(model, world)
        self._build = build
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        mesh = init_device_mesh(next(model.parameters()).device.type, (world.size,))
        for block in model.layers:  # pyright: ignore[reportGeneralTypeIssues]
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        if hasattr(model, "hidden"):
            # The chunked loss calls `hidden` instead of `forward`.
            register_fsdp_forward_method(model, "hidden")
        self._whole_of: dict[int, DTensor] = {}
        """The sharded weight of each local shard, by the id of the shard."""
        sharded = dict(model.named_parameters())
        for group in optimizer.param_groups:
            group["params"] = [self._held(sharded[names[id(p)]]) for p in group["params"]]

    def _held(self, parameter: Tensor) -> Tensor:
        """Return the local shard of a weight; called once for each weight."""
        assert isinstance(parameter, DTensor)
        with torch.no_grad():
            part = parameter.to_local()
        self._whole_of[id(part)] = parameter
        return part

    def clip(self, optimizer: Optimizer, max_norm: float) -> float:
        """Clip the gradients, which are averaged already; return their global norm."""
        parts = [part for group in optimizer.param_groups for part in group["params"]]
        for part in parts:
            whole = self._whole_of[id(part)]
            assert isinstance(whole.grad, DTensor)
            part.grad = whole.grad.to_local()
            # Not left to `model.zero_grad()`: after a forward without a backward the model's own
            # parameters are the gathered ones, and the next gradient would be added to this one.
            whole.grad = None
        norm_here = float(clip_grad_norm(parts, math.inf))
        norm = math.sqrt(self.world.sum([norm_here**2])[0])
        scale_gradients(parts, norm, max_norm)
        return norm

    def whole(self, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """Gather model and optimizer from all processes; the results support `state_dict` only."""
        model_state = {
            name: value.full_tensor() if isinstance(value, DTensor) else value
            for name, value in self.model.state_dict().items()
        }
        optimizer_state = map_optimizer_state(
            optimizer, optimizer.state_dict(), lambda part, of: _whole(part, self._whole_of[id(of)])
        )
        return cast(nn.Module, Saved(model_state)), cast(Optimizer, Saved(optimizer_state))

    def load(self, optimizer: Optimizer, checkpoint: Checkpoint) -> None:
        """Load the shards of this process from a checkpoint; errors as in DDP."""
        whole_model, whole_optimizer = self._build()
        checkpoint.load_into(whole_model, whole_optimizer)
        weights = whole_model.state_dict()
        for name, own in self.model.state_dict().items():
            weights[name] = distribute_tensor(
                weights[name], own.device_mesh, own.placements, src_data_rank=None
            )
        self.model.load_state_dict(weights)
        state = map_optimizer_state(
            optimizer,
            whole_optimizer.state_dict(),
            lambda whole, of: _part(whole, self._whole_of[id(of)]),
        )
        optimizer.load_state_dict(state)


def _whole(part: Tensor, like: DTensor) -> Tensor:
    """Gather a tensor from its shards, which are sharded like a weight."""
    mesh, placements = like.device_mesh, like.placements
    distributed = DTensor.from_local(
        part, mesh, placements, run_check=False, shape=like.shape, stride=like.stride()
    )
    return distributed.full_tensor()


def _part(whole: Tensor, like: DTensor) -> Tensor:
    """Return the local shard of a whole tensor, sharded like a weight."""
    return distribute_tensor(
        whole, like.device_mesh, like.placements, src_data_rank=None
    ).to_local()


def scale_gradients(parameters: Iterable[Tensor], norm: float, max_norm: float) -> None:
    """Clip gradients whose norm over all processes is known, as `clip_grad_norm` does."""
    if norm > max_norm:
        for parameter in parameters:
            assert parameter.grad is not None
            parameter.grad.mul_(max_norm / (norm + 1e-6))
