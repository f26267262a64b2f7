"""The batches of a run: drawn from the training text, on the device of its model."""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cs_basics.data import get_batch
from cs_basics.run.distributed import World
from cs_basics.run.token_file import TokenFile, check_unchanged
from cs_basics.settings.run import TrainConfig
from cs_basics.training import Batch

if TYPE_CHECKING:
    from cs_basics.variants.dropout import Dropout


class Batches:
    """The batches of a run, each with the masks of dropout that go with it.

    Args:
        config: The run.
        text: The training text.
        dropout: The masks, if there is to be dropout.
        device: Where the model is.
        world: The processes that share out a batch.
    """

    def __init__(
        self,
        config: TrainConfig,
        text: TokenFile,
        dropout: "Dropout | None",
        device: torch.device,
        world: World,
    ) -> None:
        self.config, self.text, self.rank = config, text, world.rank
        self.rows = world.share(config.data.batch_size)
        self.dropout, self.device = dropout, device

    def at(self, step: int, progress: float) -> Batch:
        """Return this process's rows of a batch, and draw the masks of its first part.

        Args:
            step: Number of batches before this one.
            progress: Finished share of the run, which decides whether anything is dropped yet.

        Raises:
            OSError, ValueError: The token file is gone or was changed.
        """
        check_unchanged(self.text)
        self.draw_masks(step, progress)
        return draw_batch(self.text.tokens, self.config, step, self.rows, self.device)

    def draw_masks(self, step: int, progress: float, *part: int) -> None:
        """Draw the masks of a part of a batch, by its number; none: the first part."""
        if self.dropout is not None:
            self.dropout.draw(self.config.run.seed, step, self.rank, *part, progress=progress)

    def rest(self) -> None:
        """Drop nothing until the next batch."""
        if self.dropout is not None:
            self.dropout.rest()


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


def epoch_batch(
    dataset: npt.NDArray[np.integer[Any]],
    batch_size: int,
    context_length: int,
    step: int,
    seed: int,
) -> Batch:
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


def to_device(part: Tensor, device: torch.device) -> Tensor:
    """Move token ids to a device; a GPU goes on computing while they are copied to it."""
    part = torch.as_tensor(part, dtype=torch.int64).contiguous()
    if device.type == "cuda":
        return part.pin_memory().to(device, non_blocking=True)
    return part.to(device)
