"""The batches of a run: drawn from the training text, on its device."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cs_basics.data import get_batch
from cs_basics.run.epochs import epoch_batch
from cs_basics.settings.run import TrainConfig
from cs_basics.training import Batch


def draw_batch(
    tokens: npt.NDArray[np.integer[Any]],
    config: TrainConfig,
    step: int,
    rows: slice,
    device: torch.device,
) -> Batch:
    """Return some rows of the batch of a step: inputs, and the tokens that follow them.

    Args:
        tokens: Token ids of the training text, (num_tokens,).
        config: Says how many windows of which length make a batch, and how they are drawn.
        step: Number of batches before this one.
        rows: The rows to return. Every process draws the whole batch, so that all draw the same.
        device: Device of the returned rows.

    Raises:
        ValueError: A batch of another shape was drawn.
    """
    data = config.data
    sizes = (data.batch_size, config.model.context_length)
    if data.order == "epochs":
        inputs, targets = epoch_batch(tokens, *sizes, step, config.run.seed)
    else:
        inputs, targets = get_batch(tokens, *sizes, "cpu")
    if tuple(inputs.shape) != sizes:
        raise ValueError(f"get_batch returned inputs of shape {tuple(inputs.shape)}, not {sizes}")
    return to_device(inputs[rows], device), to_device(targets[rows], device)


def to_device(part: Tensor, device: torch.device) -> Tensor:
    """Move token ids to a device; a GPU goes on computing while they are copied to it."""
    part = torch.as_tensor(part, dtype=torch.int64).contiguous()
    if device.type == "cuda":
        return part.pin_memory().to(device, non_blocking=True)
    return part.to(device)
