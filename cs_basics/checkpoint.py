"""Save and load the state of training. Tested by `make test ARGS="-k checkpoint"`."""

import io
import os
from typing import IO

import torch
from torch import nn
from torch.optim import Optimizer


def save_checkpoint(
    model: nn.Module,
    optimizer: Optimizer,
    iteration: int,
    out: str | os.PathLike[str] | IO[bytes] | io.BytesIO,
) -> None:
    """Write the weights, the optimizer's state and the number of updates made.

    Args:
        model: Its weights are saved.
        optimizer: Its state (running means, steps) and hyperparameters are saved.
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

    The file may come from anyone: weights_only=True keeps torch.load from running code in it.

    Args:
        src: A path or a binary file open for reading.
        model: Takes the weights; must have the saved shapes.
        optimizer: Takes the saved state; must have the saved parameter groups.

    Returns:
        The number of updates made.

    Raises:
        RuntimeError: The weights do not fit; the message names them. The others may be loaded.
        ValueError: The parameter groups do not fit. The weights are loaded by then.
        Exception: Whatever `torch.load` raises for a missing or damaged file; KeyError, TypeError
            or the like for a file that holds something else.
    """
    # Into main memory; load_state_dict copies the values to where the weights are.
    state = torch.load(src, map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["iteration"]
