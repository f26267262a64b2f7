"""Training by several processes, started by torchrun.

Every process draws the same batch. With `DDP` (distributed data parallel) each computes its own
rows of it with the whole model, and the gradients are averaged. The updates are those of one
process with the same batch, up to rounding and the masks of dropout, which each process draws. The
checkpoints are the same, too, so that a run can be resumed with another number of processes or
another way to share out the work.
"""

import os
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import PrefixStore  # pyright: ignore[reportPrivateImportUsage]
from torch.distributed.rendezvous import rendezvous
from torch.optim import Optimizer

from cs_basics.optim import clip_grad_norm
from cs_basics.run.checkpoint_file import Checkpoint

# Long, since the other processes wait while the first one prepares a large text. torchrun notices a
# process that dies at once, whatever the timeout.
TIMEOUT = timedelta(hours=24)
# Gradients are reduced in buckets of about this size: large enough to make latency negligible,
# small enough that copying one bucket and reducing another overlap.
BUCKET_BYTES = 25 << 20


@dataclass(frozen=True, slots=True)
class World:
    """The process group of a run, seen from one process."""

    rank: int = 0
    """Rank of this process."""
    size: int = 1
    """Number of processes."""

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and logs."""
        return self.rank == 0

    def sum(self, values: Iterable[float]) -> list[float]:
        """Return the element-wise sums over all processes, on every process."""
        if self.size == 1:
            return list(values)
        tensor = torch.tensor(list(values), dtype=torch.float64)
        dist.all_reduce(tensor)
        return tensor.tolist()

    def mean(self, value: float) -> float:
        """Return the mean over all processes."""
        return self.sum([value])[0] / self.size

    def from_first(self, value: float) -> float:
        """Return the value of the first process."""
        return self.sum([value if self.is_first else 0.0])[0]

    def wait(self) -> None:
        """Wait for all processes (a barrier)."""
        self.sum([0.0])

    def share(self, count: int) -> slice:
        """Return the slice of `count` items that belongs to this process; all are of equal size."""
        each = count // self.size
        return slice(self.rank * each, (self.rank + 1) * each)


ALONE = World()


@contextmanager
def join(device: str = "auto") -> Generator[World]:
    """Join the process group if torchrun started this process; leave it at the end.

    Args:
        device: Where to train; with anything but cpu, each process takes a GPU where there are any.

    Raises:
        ValueError: No GPU is left for this process, or torchrun has not started it.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ALONE
        return
    backend = "gloo"
    if device != "cpu" and torch.cuda.is_available():
        number, num_gpus = os.environ.get("LOCAL_RANK", ""), torch.cuda.device_count()
        if number not in map(str, range(num_gpus)):
            raise ValueError(
                f"LOCAL_RANK={number} names none of the {num_gpus} GPUs: let torchrun start at "
                f"most {num_gpus} processes here (--nproc-per-node), or give --device cpu"
            )
        torch.cuda.set_device(int(number))
        backend = "cpu:gloo,cuda:nccl"
    store, rank, size = next(rendezvous("env://", timeout=TIMEOUT))
    # torchrun keeps its store across restarts: without a prefix per restart, the new processes
    # would find the addresses of dead ones.
    store = PrefixStore(f"attempt {num_restarts()}", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    world = World(rank, size)
    yield world
    # Leave together, since a process that leaves while another still works may abort. After an
    # error this line is not reached: the others might never arrive at it.
    world.wait()
    dist.destroy_process_group()
    # A thread of gloo may still hold the last tensor; releasing it while Python shuts down would
    # abort the process. Sleeping lets that thread have the interpreter and release it now.
    time.sleep(0.2)


def launch() -> str | None:
    """Return what tells this call of torchrun from others, and None without torchrun."""
    run_id, parent = os.environ.get("TORCHELASTIC_RUN_ID"), os.getppid()
    if run_id != "none":  # The default of one machine, unless it is --standalone.
        return run_id
    with suppress(OSError):
        # In a container torchrun is always process 1: its start tells it from another.
        fields = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()
        return f"process {parent} of {fields[19]}"
    return f"process {parent}"


def num_restarts() -> int:
    """Return how often torchrun has restarted the processes because one of them died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


class DDP:
    """Distributed data parallel: every process holds the whole model; also used for one process.

    Args:
        model: The model; all processes get the weights of the first.
        world: The process group.
    """

    is_split = False
    """Whether a call of the model needs all processes to take part."""

    def __init__(self, model: nn.Module, world: World) -> None:
        self.model, self.world = model, world
        if world.size > 1:
            for parameter in model.parameters():
                dist.broadcast(parameter.detach(), 0)

    def clip(self, optimizer: Optimizer, max_norm: float) -> float:  # noqa: ARG002
        """Average the gradients over all processes and clip them; return their global norm.

        A student's clipping may return nothing: then the norm that it has left is returned.
        """
        parameters = list(self.model.parameters())
        if self.world.size > 1:
            average([p.grad for p in parameters if p.grad is not None], self.world)
        norm = clip_grad_norm(parameters, max_norm)
        if norm is None:  # pyright: ignore[reportUnnecessaryComparison]
            norm = torch.stack([p.grad.norm() for p in parameters if p.grad is not None]).norm()
        return float(norm)

    def whole(self, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """Return the whole model and optimizer for saving; all processes call this together."""
        return self.model, optimizer

    def load(self, optimizer: Optimizer, checkpoint: Checkpoint) -> None:
        """Load a checkpoint.

        Raises:
            ValueError: The checkpoint does not fit this model or optimizer.
        """
        checkpoint.load_into(self.model, optimizer)


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
    """Group tensors of equal dtype, in order, into buckets of about BUCKET_BYTES."""
    bucket: list[Tensor] = []
    num_bytes = 0
    for tensor in tensors:
        if bucket and (num_bytes + tensor.nbytes > BUCKET_BYTES or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket, num_bytes = [], 0
        bucket.append(tensor)
        num_bytes += tensor.nbytes
    yield bucket
