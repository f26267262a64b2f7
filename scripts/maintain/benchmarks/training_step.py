"""One update of a model as a function without arguments, for the clock."""

from collections.abc import Callable

import torch
from torch import Tensor

from cs_basics.fast.adamw import OnePassAdamW
from cs_basics.optim import clip_grad_norm
from cs_basics.run.config import TrainConfig
from cs_basics.run.evaluation import LossFunction
from cs_basics.transformer import TransformerLM

Batch = tuple[Tensor, Tensor]


def random_batch(config: TrainConfig, device: torch.device | str = "cpu") -> Batch:
    """Return inputs and targets of a configuration's sizes, the ids drawn at random."""
    shape = (config.batch_size, config.context_length + 1)
    ids = torch.randint(config.vocab_size, shape, device=device)
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def training_step(
    model: TransformerLM,
    loss_of: LossFunction,
    batch: Batch,
    optimizer: OnePassAdamW | None = None,
) -> Callable[[], None]:
    """Return a function that does what training does with one batch.

    Args:
        model: The model whose weights are updated.
        loss_of: The mean loss of a batch, compiled or not.
        batch: Inputs and targets; every call takes the same.
        optimizer: Updates the weights; None: a new one, not compiled.
    """
    optimizer = optimizer or OnePassAdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss_of(*batch).backward()
        clip_grad_norm(model.parameters(), 1.0)
        optimizer.step()

    return step
