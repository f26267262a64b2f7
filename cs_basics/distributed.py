"""One model trained by several processes, started by torchrun.

Every process draws the same batch and works on its own rows of it. Then either each holds the whole
model and the gradients are averaged (`Replicas`: data parallel), or each holds a part of every
weight, collects a block's weights when it needs them, and gets its part of the averaged gradients
(`Shards`: fully sharded data parallel, Zhao et al. 2023, https://arxiv.org/abs/2304.11277). Both
take the same steps as one process with the same batch, up to rounding, and both write the same
checkpoint as one process: a run can go on with another number of processes, in another way.

Tested by `make test ARGS=tests/project/test_distributed.py`.
"""

import math
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from cs_basics.checkpoint import check_optimizer_state, load_weights
from cs_basics.optim import clip_grad_norm
from cs_basics.transformer import TransformerLM

# While the first process prepares a large text the others wait. One that dies is noticed by
# torchrun at once, however long this is.
TIMEOUT = timedelta(hours=24)
# Gradients travel in pieces of about this size: large enough that the way costs little, small
# enough that copying one and sending another overlap.
BUCKET_BYTES = 25 << 20


@dataclass(frozen=True, slots=True)
class World:
    """All processes of a run, seen from one of them."""

    rank: int = 0
    """Number of this process."""
    size: int = 1
    """How many there are."""

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and talks."""
        return self.rank == 0

    def sum(self, values: Iterable[float]) -> list[float]:
        """Add up what all processes give, place by place; each gets the sums."""
        if self.size == 1:
            return list(values)
        tensor = torch.tensor(list(values), dtype=torch.float64)
        dist.all_reduce(tensor)
        return tensor.tolist()

    def mean(self, value: float) -> float:
        """Return the mean of what all processes give."""
        return self.sum([value])[0] / self.size

    def from_first(self, value: float) -> float:
        """Return what the first process gives."""
        return self.sum([value if self.is_first else 0.0])[0]

    def wait(self) -> None:
        """Wait until all processes are here."""
        self.sum([0.0])

    def share(self, count: int) -> slice:
        """Return which of so many things are for this process; all get equally many."""
        each = count // self.size
        return slice(self.rank * each, (self.rank + 1) * each)


ALONE = World()


@contextmanager
def join() -> Generator[World]:
    """Join the other processes that torchrun started, if it did; leave them in the end."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ALONE
        return
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        backend = "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend, timeout=TIMEOUT)
    yield World(dist.get_rank(), size)
    # Not after an error: the others may be waiting for something that will not come.
    dist.destroy_process_group()


def is_restarted() -> bool:
    """Whether torchrun started these processes anew after one of them had died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


class Replicas:
    """Every process holds the whole model; with one process, there is nothing else to it.

    Args:
        model: The model; all processes get the weights of the first.
        world: The processes.
    """

    def __init__(self, model: TransformerLM, world: World) -> None:
        self.model, self.world = model, world
        if world.size > 1:
            for parameter in model.parameters():
                dist.broadcast(parameter.detach(), 0)

    def held(self, parameter: Tensor) -> Tensor:
        """Return what this process holds of a weight, for the optimizer to change."""
        return parameter

    def finish_gradients(self, optimizer: Optimizer, max_norm: float) -> Tensor:  # noqa: ARG002
        """Average the gradients over all processes and clip them; return their joint norm."""
        if self.world.size > 1:
            average([p.grad for p in self.model.parameters() if p.grad is not None], self.world)
        return clip_grad_norm(self.model.parameters(), max_norm)

    def state(self, optimizer: Optimizer) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the whole state of model and optimizer; all processes have to ask together."""
        return self.model.state_dict(), optimizer.state_dict()

    def load(self, optimizer: Optimizer, state: dict[str, Any], source: str) -> None:
        """Take up the state of a checkpoint.

        Args:
            optimizer: Takes its part.
            state: What `read_checkpoint` returned.
            source: Where it comes from, for messages.

        Raises:
            ValueError: It is not of this model.
        """
        load_weights(self.model, state["model"], source)
        check_optimizer_state(optimizer, state["optimizer"], source)
        optimizer.load_state_dict(state["optimizer"])


def average(gradients: list[Tensor], world: World) -> None:
    """Replace gradients by their mean over all processes."""
    pending = [
        (bucket, flat := torch.cat([gradient.flatten() for gradient in bucket]),
         dist.all_reduce(flat, async_op=True))
        for bucket in _buckets(gradients)
    ]  # fmt: skip
    for bucket, flat, work in pending:
        assert work is not None
        work.wait()
        flat /= world.size
        sizes = [gradient.numel() for gradient in bucket]
        for gradient, mean in zip(bucket, flat.split(sizes), strict=True):
            gradient.copy_(mean.view_as(gradient))


def _buckets(tensors: list[Tensor]) -> Iterator[list[Tensor]]:
    """Group tensors of one type, in order, to about BUCKET_BYTES each."""
    bucket: list[Tensor] = []
    num_bytes = 0
    for tensor in tensors:
        if bucket and (num_bytes + tensor.nbytes > BUCKET_BYTES or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket, num_bytes = [], 0
        bucket.append(tensor)
        num_bytes += tensor.nbytes
    yield bucket


class Shards:
    """Each process holds a part of every weight, of its gradient and of the optimizer's state.

    The optimizer is given those parts, as plain tensors, and need not know of the others.

    Args:
        model: The model; it is changed in place. All processes must hold the same weights.
        world: The processes, two or more.
    """

    def __init__(self, model: TransformerLM, world: World) -> None:
        self.model, self.world = model, world
        mesh = init_device_mesh(model.token_embeddings.weight.device.type, (world.size,))
        for block in model.layers:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        # Called by itself where the loss is computed without logits.
        register_fsdp_forward_method(model, "hidden")
        self._whole_of: dict[int, DTensor] = {}
        """By the identity of the part that the optimizer has."""

    def held(self, parameter: Tensor) -> Tensor:
        """As in Replicas; called once for each weight."""
        assert isinstance(parameter, DTensor)
        with torch.no_grad():
            part = parameter.to_local()
        self._whole_of[id(part)] = parameter
        return part

    def finish_gradients(self, optimizer: Optimizer, max_norm: float) -> Tensor:
        """As in Replicas; averaged they are already."""
        parts = self._parts(optimizer)
        for part in parts:
            gradient = self._whole_of[id(part)].grad
            assert isinstance(gradient, DTensor)
            part.grad = gradient.to_local()
        norm_here = clip_grad_norm(parts, math.inf).item()
        norm = math.sqrt(self.world.sum([norm_here**2])[0])
        if norm > max_norm:
            for part in parts:
                assert part.grad is not None
                part.grad.mul_(max_norm / (norm + 1e-6))
        return torch.tensor(norm)

    def state(self, optimizer: Optimizer) -> tuple[dict[str, Any], dict[str, Any]]:
        """As in Replicas."""
        model_state = {
            name: value.full_tensor() if isinstance(value, DTensor) else value
            for name, value in self.model.state_dict().items()
        }
        return model_state, self._map_optimizer_state(optimizer, optimizer.state_dict(), _whole)

    def load(self, optimizer: Optimizer, state: dict[str, Any], source: str) -> None:
        """As in Replicas."""
        weights = dict(state["model"])
        for name, own in self.model.state_dict().items():
            if name in weights and weights[name].shape == own.shape:
                weights[name] = distribute_tensor(
                    weights[name], own.device_mesh, own.placements, src_data_rank=None
                )
        load_weights(self.model, weights, source)
        check_optimizer_state(optimizer, state["optimizer"], source)
        optimizer.load_state_dict(self._map_optimizer_state(optimizer, state["optimizer"], _part))

    def _parts(self, optimizer: Optimizer) -> list[Tensor]:
        """Return what the optimizer changes, in the order in which its state numbers them."""
        return [part for group in optimizer.param_groups for part in group["params"]]

    def _map_optimizer_state(
        self,
        optimizer: Optimizer,
        state: dict[str, Any],
        convert: Callable[[Tensor, DTensor], Tensor],
    ) -> dict[str, Any]:
        """Convert what the optimizer keeps for each element of a weight, such as its moments."""
        parts = self._parts(optimizer)
        per_weight = {
            number: {
                name: convert(value, self._whole_of[id(parts[number])])
                if isinstance(value, Tensor) and value.dim()
                else value
                for name, value in kept.items()
            }
            for number, kept in state["state"].items()
        }
        return {**state, "state": per_weight}


def _whole(part: Tensor, like: DTensor) -> Tensor:
    """Collect from all processes what belongs to the parts of a weight."""
    mesh, placements = like.device_mesh, like.placements
    distributed = DTensor.from_local(
        part, mesh, placements, run_check=False, shape=like.shape, stride=like.stride()
    )
    return distributed.full_tensor()


def _part(whole: Tensor, like: DTensor) -> Tensor:
    """Take from something whole what belongs to this process's part of a weight."""
    return distribute_tensor(
        whole, like.device_mesh, like.placements, src_data_rank=None
    ).to_local()


Layout = Replicas | Shards


def lay_out(model: TransformerLM, parallel: Literal["ddp", "fsdp"], world: World) -> Layout:
    """Spread a model over the processes, which all hold it now."""
    replicas = Replicas(model, world)
    return Shards(model, world) if parallel == "fsdp" and world.size > 1 else replicas
