"""Save and load the state of training.

Yours to write (docs/handout.md); examined by `make test ARGS="--problem NAME"`:

    checkpointing                       Checkpoints (2 points)
"""

import io
import os
from pathlib import Path
from typing import IO

import torch
from torch import nn
from torch.optim import Optimizer


def save_checkpoint(
    model: nn.Module,
    optimizer: Optimizer,
    iteration: int,
    out: str | os.PathLike[str] | IO[bytes],
) -> None:
    """Write all that is needed to go on as if nothing had happened.

    Args:
        model: Its weights and persistent buffers are saved.
        optimizer: Its state (moments, steps) and hyperparameters are saved.
        iteration: Number of updates made.
        out: A path or a binary file open for writing.

    Raises:
        OSError: The file cannot be written; the disk may be full.
    """
    weights = model.state_dict()
    content = {
        "updates": int(iteration),
        "weights": {"names": list(weights), "tensors": list(weights.values())},
        "optimizer": optimizer.state_dict(),
    }
    memory = io.BytesIO()
    torch.save(content, memory)
    if isinstance(out, str | os.PathLike):
        Path(out).write_bytes(memory.getbuffer())
    else:
        out.write(memory.getbuffer())


def load_checkpoint(
    src: str | os.PathLike[str] | IO[bytes], model: nn.Module, optimizer: Optimizer
) -> int:
    """Put a saved state back into a model and its optimizer.

    The file is not trusted: only tensors and plain values are ever built from it.

    Args:
        src: A path or a binary file open for reading.
        model: Takes the weights; must have the saved shapes.
        optimizer: Takes the saved state; must have the saved parameter groups.

    Returns:
        The number of updates made.

    Raises:
        FileNotFoundError: There is no such file.
        RuntimeError: The weights do not fit the model; the message names them.
        ValueError: The parameter groups do not fit the optimizer.
    """
    raw = Path(src).read_bytes() if isinstance(src, str | os.PathLike) else src.read()
    content = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
    weights = content["weights"]
    model.load_state_dict(dict(zip(weights["names"], weights["tensors"], strict=True)))
    optimizer.load_state_dict(content["optimizer"])
    return content["updates"]
