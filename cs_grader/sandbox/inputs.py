"""Keeps the inputs of a submission where the server can see what became of them.

    inputs = Inputs()               # in the server, once
    inputs.renew()                  # and before it forks a host
    tensor = inputs.place(tensor)   # by the probe, for each input
    inputs.look(size)               # in the server, when the probe is over

Probes look for changes, too, but they run in the submission's process, which can replace them. So
the bytes go to the grader, which knows what they were (trusted/unchanged.py).
"""

import mmap
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cs_grader.sandbox.wire import INPUT_BYTES, place_for

if TYPE_CHECKING:
    from torch import Tensor


class Inputs:
    """Memory that all processes share, for the tensors that are given to a submission."""

    def __init__(self) -> None:
        import torch

        # As they are before a submission is there, which may replace them.
        self.frombuffer, self.as_strided = torch.frombuffer, torch.as_strided
        self.copy = torch.Tensor.copy_
        self.renew()

    def renew(self) -> None:
        """Begin with memory that no host has seen."""
        self.memory = mmap.mmap(-1, INPUT_BYTES)
        self.end = 0

    def place(self, tensor: "Tensor") -> "Tensor":
        """Return the same tensor in shared memory, laid out in the same way."""
        num_bytes = tensor.untyped_storage().nbytes()
        start = place_for(num_bytes, self.end)
        if start is None:
            return tensor
        self.end = start + num_bytes
        count = num_bytes // tensor.element_size()
        shared = self.frombuffer(self.memory, dtype=tensor.dtype, count=count, offset=start)
        self.copy(shared, self.as_strided(tensor, (count,), (1,), 0))
        return self.as_strided(shared, tensor.shape, tensor.stride(), tensor.storage_offset())

    def look(self, size: int) -> npt.NDArray[np.uint8]:
        """The first bytes of the memory as they are now."""
        return np.frombuffer(self.memory[:size], np.uint8)
