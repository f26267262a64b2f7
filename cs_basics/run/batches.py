"""The batches of a run: drawn from the training text, on the device of its model."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cs_basics.data import get_batch
from cs_basics.run.distributed import World
from cs_basics.run.epochs import epoch_batch
from cs_basics.run.layout import micro_batch_size
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
        model: Gets the masks, if there is to be dropout; its device is that of the batches.
        world: The processes that share out a batch.
    """

    def __init__(
        self, config: TrainConfig, text: TokenFile, model: nn.Module, world: World
    ) -> None:
        self.config, self.text, self.rank = config, text, world.rank
        self.rows = world.share(config.data.batch_size)
        self.device = next(model.parameters()).device
        self.dropout = make_dropout(model, config, world)

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


def make_dropout(model: nn.Module, config: TrainConfig, world: World) -> "Dropout | None":
    """Give a model the masks of dropout, if there is to be any, for the rows of a micro-batch."""
    if not config.optim.dropout:
        return None
    from cs_basics.variants.dropout import Dropout

    sizes = config.model
    shape = (micro_batch_size(config, world), sizes.context_length, sizes.d_model)
    return Dropout(model, config.optim.dropout, shape)


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
