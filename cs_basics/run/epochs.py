"""Batches in epochs: every window of the text once per epoch, in a new random order."""

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import torch


def epoch_batch(
    dataset: npt.NDArray[np.integer[Any]],
    batch_size: int,
    context_length: int,
    device: str | torch.device,
    step: int,
    seed: int,
    rows: slice | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the batch of a step, which holds every window of the text once per epoch.

    The windows do not overlap; tokens at the end that do not fill one are dropped. The order
    depends on step and seed only, so that a run can resume at any step.

    Args:
        dataset: Token ids, (num_tokens,), at least context_length + 1.
        batch_size: Windows in a batch.
        context_length: Tokens in a window.
        device: Device of the result.
        step: Number of batches before this one.
        seed: Seed of the order.
        rows: Read and return only these windows of the batch; None: all.

    Returns:
        As `get_batch`.
    """
    num_windows = (len(dataset) - 1) // context_length
    places = np.arange(step * batch_size, (step + 1) * batch_size)[rows or slice(None)]
    windows = [_order(num_windows, seed, int(p // num_windows))[p % num_windows] for p in places]
    return read_windows(dataset, np.array(windows) * context_length, context_length, device)


@functools.lru_cache(maxsize=2)
def _order(num_windows: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """Return the order of an epoch; two are cached, since a batch may span two epochs."""
    return np.random.default_rng([seed, epoch]).permutation(num_windows)


def read_windows(
    dataset: npt.NDArray[np.integer[Any]],
    starts: npt.NDArray[np.int64],
    context_length: int,
    device: str | torch.device,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Read windows of a token sequence as inputs, and the next tokens as targets.

    Args:
        dataset: Token ids, (num_tokens,).
        starts: First token of each window, (batch_size,); context_length + 1 tokens must follow.
        context_length: Tokens in a window.
        device: Where the result goes.

    Returns:
        As `get_batch`.
    """
    places = starts[:, None] + np.arange(context_length + 1)
    # Inputs and targets in one read: each window with the token after it.
    windows = torch.from_numpy(dataset[places].astype(np.int64))
    x, y = windows[:, :-1].contiguous(), windows[:, 1:].contiguous()
    if torch.device(device).type == "cuda" and torch.cuda.is_available():
        # A copy from pinned memory runs asynchronously.
        x, y = x.pin_memory(), y.pin_memory()
    return x.to(device, non_blocking=True), y.to(device, non_blocking=True)
