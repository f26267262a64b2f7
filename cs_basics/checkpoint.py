"""Save and load the state of training. Tested by `make test ARGS="-k checkpoint"`."""

import io
import os
import re
from typing import IO

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

WRAPPERS = re.compile(r"^(?:_orig_mod\.|module\.)+")
"""What torch.compile and DistributedDataParallel put before the names of weights."""


def save_checkpoint(
    model: nn.Module,
    optimizer: Optimizer,
    iteration: int,
    out: str | os.PathLike[str] | IO[bytes] | io.BytesIO,
) -> None:
    """Write the weights, the optimizer's state and the number of updates made.

    Args:
        model: Its weights and persistent buffers are saved.
        optimizer: Its state (moments, steps) and hyperparameters are saved.
        iteration: Number of updates made.
        out: A path or a binary file open for writing.

    Raises:
        OSError, RuntimeError: The file cannot be written; the disk may be full.
    """
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "iteration": iteration,
    }
    torch.save(state, out)


def load_checkpoint(
    src: str | os.PathLike[str] | IO[bytes] | io.BytesIO, model: nn.Module, optimizer: Optimizer
) -> int:
    """Put a saved state back into a model and its optimizer.

    The file is not trusted: only tensors and plain values are ever built from it. The model may be
    wrapped (`torch.compile`, DistributedDataParallel) where the saved one was not, and vice versa.

    Args:
        src: A path or a binary file open for reading.
        model: Takes the weights; must have the saved shapes.
        optimizer: Takes the saved state; must have the saved parameter groups.

    Returns:
        The number of updates made.

    Raises:
        RuntimeError, ValueError: The weights or the parameter groups do not fit; the message names
            them. What fits may have been loaded.
        Exception: Whatever `torch.load` raises for a file that is missing or no checkpoint.
    """
    state = torch.load(src, map_location="cpu", weights_only=True)
    saved: dict[str, Tensor] = state["model"]
    names = {WRAPPERS.sub("", name): name for name in model.state_dict()}
    model.load_state_dict({names.get(WRAPPERS.sub("", name), name): saved[name] for name in saved})
    optimizer.load_state_dict(state["optimizer"])
    return state["iteration"]
