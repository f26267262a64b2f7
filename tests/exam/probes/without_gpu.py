"""Let code that speaks to a GPU, but needs none, run where there is no GPU."""

from typing import Any

import torch


class Idle:
    """A stream, an event or a profiler of a device that has nothing to do."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return nothing

    def elapsed_time(self, _end: object) -> float:
        return 0.0

    def query(self) -> bool:
        return True


def nothing(*_: object, **__: object) -> None:
    """Stand for a call that only a device would notice."""


def stand_in_for_a_gpu() -> None:
    """Where there is no CUDA, have its markers, streams, events and pinned memory do nothing.

    In a build of PyTorch for CPUs they raise. What computes on a GPU still does.
    """
    if torch.cuda.is_available():
        return
    torch.cuda.nvtx._nvtx = Idle()
    torch.cuda.Stream = torch.cuda.Event = Idle
    torch.cuda.current_stream = torch.cuda.default_stream = Idle
    torch.cuda.synchronize = torch.cuda.reset_peak_memory_stats = nothing
    torch.Tensor.pin_memory = lambda tensor, *_: tensor
    torch.Tensor.record_stream = nothing
