"""One model trained by several processes, started by torchrun.

Every process draws the same batch and works on its own rows of it. Then either each holds the whole
model and the gradients are averaged (`DDP`, distributed data parallel), or each holds a part of
every weight (`FSDP`, in fsdp.py). Both take the same steps as one process with the same batch, up
to rounding, and both write the same checkpoint as one process: a run can go on with another number
of processes, in another way.

Tested by `make test ARGS=tests/project/test_distributed.py`.
"""

import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import PrefixStore  # pyright: ignore[reportPrivateImportUsage]
from torch.distributed.rendezvous import rendezvous
from torch.optim import Optimizer

from cs_basics.optim import clip_grad_norm
from cs_basics.run.checkpoint_file import Checkpoint

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
    store, rank, size = next(rendezvous("env://", timeout=TIMEOUT))
    # torchrun keeps its store when it starts processes again: without names of their own they
    # would find the addresses of the dead there.
    store = PrefixStore(f"attempt {num_restarts()}", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    world = World(rank, size)
    yield world
    # Together: one that leaves while another is at work may abort on its way out. And not after an
    # error: then the others may be waiting for something that will not come.
    world.wait()
    dist.destroy_process_group()


def num_restarts() -> int:
    """How often torchrun has started these processes anew because one of them had died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


class DDP:
    """Every process holds the whole model; with one process, there is nothing else to it.

    Args:
        model: The model; all processes get the weights of the first.
        world: The processes.
    """

    is_split = False
    """Whether the model can be called by all processes together only."""

    def __init__(self, model: nn.Module, world: World) -> None:
        self.model, self.world = model, world
        if world.size > 1:
            for parameter in model.parameters():
                dist.broadcast(parameter.detach(), 0)

    def clip(self, optimizer: Optimizer, max_norm: float) -> float:  # noqa: ARG002
        """Average the gradients over all processes and clip them; return their joint norm."""
        if self.world.size > 1:
            average([p.grad for p in self.model.parameters() if p.grad is not None], self.world)
        return float(clip_grad_norm(self.model.parameters(), max_norm))

    def whole(self, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """Return model and optimizer to be saved; all processes have to ask together."""
        return self.model, optimizer

    def load(self, optimizer: Optimizer, checkpoint: Checkpoint) -> int:
        """Take up the state of a checkpoint; return the number of updates made.

        Raises:
            ValueError: It is not of this model and optimizer.
        """
        return checkpoint.load_into(self.model, optimizer)


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
