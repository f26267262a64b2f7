"""Batches that read a text from end to end, again and again, each time in another order.

Tested by `make test ARGS=tests/project/test_epochs.py`.
"""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cs_basics.data import read_windows

if TYPE_CHECKING:
    import torch


def epoch_batch(
    dataset: npt.NDArray[np.integer[Any]],
    batch_size: int,
    context_length: int,
    device: "str | torch.device",
    step: int,
    seed: int,
    rows: slice | None = None,
) -> "tuple[torch.Tensor, torch.Tensor]":
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
