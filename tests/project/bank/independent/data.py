"""Random batches from a long sequence of token ids."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int64
from torch import Tensor


def get_batch(
    dataset: npt.NDArray[np.integer[Any]],
    batch_size: int,
    context_length: int,
    device: str | torch.device,
) -> tuple[Int64[Tensor, "batch_size context_length"], Int64[Tensor, "batch_size context_length"]]:
    if not np.issubdtype(dataset.dtype, np.integer):
        raise TypeError(f"token ids must be integers, not {dataset.dtype}")
    if dataset.ndim != 1:
        raise ValueError(f"the dataset must have one axis, not shape {dataset.shape}")
    if batch_size < 1 or context_length < 1:
        raise ValueError(f"batch_size={batch_size}, context_length={context_length}: below 1")
    choices = len(dataset) - context_length
    if choices < 1:
        raise ValueError(f"{len(dataset)} tokens are too few for {context_length} and the next one")
    inputs, targets = [], []
    for _ in range(batch_size):
        at = int(torch.randint(choices, ()))
        window = torch.from_numpy(np.array(dataset[at : at + context_length + 1], dtype=np.int64))
        inputs.append(window[:-1])
        targets.append(window[1:])
    return torch.stack(inputs).to(device), torch.stack(targets).to(device)
