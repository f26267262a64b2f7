"""Save and load the state of training."""

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
    raw = Path(src).read_bytes() if isinstance(src, str | os.PathLike) else src.read()
    content = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
    weights = content["weights"]
    model.load_state_dict(dict(zip(weights["names"], weights["tensors"], strict=True)))
    optimizer.load_state_dict(content["optimizer"])
    return content["updates"]
