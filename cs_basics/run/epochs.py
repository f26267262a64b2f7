"""Batches in epochs: each epoch reads the text once, cut and ordered anew."""

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import torch


def epoch_batch(
    dataset: npt.NDArray[np.integer[Any]],
    batch_size: int,
    context_length: int,
    step: int,
    seed: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the batch of a step; the batches of an epoch together hold the text once.

    The windows of an epoch do not overlap. Where the first one begins is drawn anew for each
    epoch, so that a token is not always predicted from the same context; tokens at both ends that
    do not fill a window are dropped. The batch depends only on step and seed, so that a run can
    resume at any step.

    Args:
        dataset: Token ids, (num_tokens,), at least context_length + 1.
        batch_size: Windows in a batch.
        context_length: Tokens in a window.
        step: Number of batches before this one.
        seed: Seed of the order.

    Returns:
        As `get_batch`.
    """
    # One window less than fits, so that their number is the same wherever the first one begins.
    num_windows = max(1, (len(dataset) - 1) // context_length - 1)
    num_firsts = len(dataset) - num_windows * context_length
    starts: list[int] = []
    for place in range(step * batch_size, (step + 1) * batch_size):
        epoch, place_in_epoch = divmod(place, num_windows)
        first, order = _epoch(num_windows, num_firsts, seed, epoch)
        starts.append(first + context_length * int(order[place_in_epoch]))
    places = np.array(starts)[:, None] + np.arange(context_length + 1)
    # One read gives inputs and targets: each window together with the token after it.
    windows = torch.from_numpy(dataset[places].astype(np.int64))
    return windows[:, :-1], windows[:, 1:]


@functools.lru_cache(maxsize=2)
def _epoch(
    num_windows: int, num_firsts: int, seed: int, epoch: int
) -> tuple[int, npt.NDArray[np.int64]]:
    """Return an epoch's first token and order; two are cached, since a batch may span two."""
    draw = np.random.default_rng([seed, epoch])
    return int(draw.integers(num_firsts)), draw.permutation(num_windows)
