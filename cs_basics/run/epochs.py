"""Batches that read a text from end to end, again and again, each time in another order.

Tested by `make test ARGS=tests/project/run/test_epochs.py`.
"""

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
    """Return the batch of a step: in each epoch every window of the text comes once.

    The text is cut into windows that do not overlap; what is too short for one is left out. The
    order is a function of step and seed alone, so that a run can go on anywhere.

    Args:
        dataset: Token ids, (num_tokens,), at least context_length + 1.
        batch_size: Windows in a batch.
        context_length: Tokens in a window.
        device: Where the result goes.
        step: Batches before this one.
        seed: Decides the order.
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
    """Return the order of an epoch; two are kept, since a batch may hold the end of one."""
    return np.random.default_rng([seed, epoch]).permutation(num_windows)


def random_batch(
    dataset: npt.NDArray[np.integer[Any]],
    batch_size: int,
    context_length: int,
    device: str | torch.device,
    generator: torch.Generator,
    rows: slice | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return some rows of a random batch, drawn by a generator of one's own.

    Args:
        dataset: Token ids, (num_tokens,), at least context_length + 1.
        batch_size: Windows to draw, with replacement.
        context_length: Tokens in a window.
        device: Where the result goes.
        generator: Source of the randomness.
        rows: Read and return only these windows of the batch; None: all.

    Returns:
        As `get_batch`.
    """
    num_starts = len(dataset) - context_length
    starts = torch.randint(num_starts, (batch_size,), generator=generator)[rows or slice(None)]
    return read_windows(dataset, starts.numpy(), context_length, device)


def read_windows(
    dataset: npt.NDArray[np.integer[Any]],
    starts: npt.NDArray[np.int64],
    context_length: int,
    device: str | torch.device,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Read windows of a long sequence, and what follows each of their tokens.

    Args:
        dataset: Token ids, (num_tokens,).
        starts: Where the windows begin, (batch_size,); context_length + 1 tokens must follow.
        context_length: Tokens in a window.
        device: Where the result goes.

    Returns:
        As `get_batch`.
    """
    places = starts[:, None] + np.arange(context_length + 1)
    # One read for both: the windows with the token after each.
    windows = torch.from_numpy(dataset[places].astype(np.int64))
    x, y = windows[:, :-1].contiguous(), windows[:, 1:].contiguous()
    if torch.device(device).type == "cuda" and torch.cuda.is_available():
        # From pinned memory the copy runs while the device computes.
        x, y = x.pin_memory(), y.pin_memory()
    return x.to(device, non_blocking=True), y.to(device, non_blocking=True)
