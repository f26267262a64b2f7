"""Random batches from a long sequence of token ids. Tested by `make test ARGS="-k batch"`."""

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
    """Draw random windows of a long sequence, and for each token the one that follows it.

    Windows start at 0 to len(dataset) - context_length - 1, drawn from torch's global random number
    generator, with equal probability: up to its 32 random bits, so that of 200 million starts some
    are a twentieth likelier than others.

    >>> get_batch(np.array([5, 6, 7]), 1, 2, "cpu")  # three tokens: one window, at 0
    (tensor([[5, 6]]), tensor([[6, 7]]))

    Args:
        dataset: Token ids, (num_tokens,), any integer type; may be a memory map: only the windows
            are read from it.
        batch_size: Windows to draw, with replacement.
        context_length: Tokens in a window.
        device: Where the result goes.

    Returns:
        Inputs and targets; the targets are the inputs shifted by one.

    Raises:
        TypeError: The dataset does not hold integers.
        ValueError: The dataset is not 1-D or too short for one window, or a size is below 1.
    """
    if dataset.ndim != 1:
        raise ValueError(f"dataset has the shape {dataset.shape} and must have one axis")
    if not np.issubdtype(dataset.dtype, np.integer):
        raise TypeError(f"dataset holds {dataset.dtype} and must hold integers")
    for name, value in (("batch_size", batch_size), ("context_length", context_length)):
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
    num_starts = len(dataset) - context_length
    if num_starts < 1:
        raise ValueError(
            f"dataset has {len(dataset)} tokens, but context_length={context_length} needs at "
            f"least {context_length + 1}: use more text or a shorter context"
        )
    # One row for each window: its random start, plus 0, 1, ..., context_length - 1.
    indices = torch.randint(num_starts, (batch_size, 1)).numpy() + np.arange(context_length)
    inputs = torch.from_numpy(dataset[indices].astype(np.int64))
    targets = torch.from_numpy(dataset[indices + 1].astype(np.int64))
    return inputs.to(device), targets.to(device)
