"""Speed by torch.compile alone: nothing replaces your code, so your code is what runs."""

import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from cs_basics.variants.config import ModelConfig
from torch import Tensor, nn
from torch.optim import Optimizer

Thing = TypeVar("Thing")
LossFunction = Callable[[Tensor, Tensor], Tensor]

logger = logging.getLogger(__name__)


def accelerate(thing: Thing) -> Thing:
    """Return what was given: there are no faster twins here."""
    return thing


def compile_training(
    model: nn.Module,
    config: ModelConfig,
    optimizer: Optimizer,
    dtype: torch.dtype,
    num_rows: int,
    *,
    is_alone: bool = True,
    checkpoints_activations: bool = False,
) -> LossFunction:
    """Compile the loss of a model; its optimizer runs as it is.

    Args:
        model: The model that is trained.
        config: Not needed here, like all that follow it but dtype.
        optimizer: Not needed here.
        dtype: Type of the matrix products.
        num_rows: Not needed here.
        is_alone: Not needed here.
        checkpoints_activations: Not needed here.
    """
    del config, optimizer, num_rows, is_alone, checkpoints_activations
    from cs_basics.run.evaluation import make_loss_function

    loss_of = make_loss_function(model, dtype)
    compiled = compile_if_possible(loss_of, next(model.parameters()).device)

    def loss_with_gradients(inputs: Tensor, targets: Tensor) -> Tensor:
        # An evaluation takes the graph of training: compiling another costs more than it saves.
        with torch.enable_grad():
            return compiled(inputs, targets)

    return loss_with_gradients


def checkpoint_blocks(model: nn.Module) -> None:
    """Keep only what enters each block and compute the rest again in the backward, in place."""
    from cs_basics.fast.activation_checkpointing import checkpoint_blocks

    checkpoint_blocks(model)


def batch_generator(model: nn.Module) -> Callable[..., Iterator[list[int | None]]] | None:
    """Return None: texts are written one after the other."""
    del model
    return None


def compile_if_possible(function: Thing, device: torch.device) -> Thing:
    """Return the compiled function; it runs uncompiled, with a logged reason, where that fails."""
    del device  # torch.compile sees it
    current = compiled = torch.compile(function)  # pyright: ignore[reportCallIssue, reportArgumentType]

    def call(*inputs: Any) -> Any:  # noqa: ANN401  as the function's own
        nonlocal current
        try:
            return current(*inputs)
        except Exception as error:
            if current is not compiled:
                raise
            # An error in your code comes again below, with a traceback that can be read.
            reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
            logger.warning("torch.compile does not work here, so the run is slower: %s", reason)
            current = function
            return current(*inputs)  # pyright: ignore[reportCallIssue]

    return call  # pyright: ignore[reportReturnType]
