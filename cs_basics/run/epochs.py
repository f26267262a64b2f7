"""Batches in epochs: the text once per epoch, cut and ordered anew each time."""

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
    """Return the batch of a step; the steps of an epoch together hold the text once.

    The windows of an epoch do not overlap. Where the first one begins is drawn anew for each
    epoch, so that a token is not always predicted from the same context; tokens at both ends that
    do not fill a window are dropped. All depends on step and seed only, so that a run can resume
    at any step.

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
    # One less than fit, so that there are as many wherever the first one begins.
    num_windows = max(1, (len(dataset) - 1) // context_length - 1)
    num_firsts = len(dataset) - num_windows * context_length
    starts = []
    for place in range(step * batch_size, (step + 1) * batch_size)[rows or slice(None)]:
        epoch, place_in_epoch = divmod(place, num_windows)
        first, order = _epoch(num_windows, num_firsts, seed, epoch)
        starts.append(first + context_length * order[place_in_epoch])
    return read_windows(dataset, np.array(starts), context_length, device)


@functools.lru_cache(maxsize=2)
def _epoch(
    num_windows: int, num_firsts: int, seed: int, epoch: int
) -> tuple[int, npt.NDArray[np.int64]]:
    """Return an epoch's first token and order; two are cached, since a batch may span two."""
    draw = np.random.default_rng([seed, epoch])
    return int(draw.integers(num_firsts)), draw.permutation(num_windows)


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
