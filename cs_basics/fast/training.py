"""The compiled training step: loss, gradients and update."""

import dataclasses
import logging

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cs_basics.fast.adamw import FusedAdamW
from cs_basics.fast.compilation import (
    compile_if_possible,
    path_that_stops_the_compiler,
    reason_not_to_compile,
)
from cs_basics.fast.loss import Loss, LossFunction, is_chunked, loss_function
from cs_basics.fast.muon import StackedMuon
from cs_basics.fast.native.ahead_of_time import CompiledLoss, NotCompiledError
from cs_basics.fast.native.attention_kernel import use_kernel
from cs_basics.settings.model import ModelConfig
from cs_basics.variants.dropout import drops

logger = logging.getLogger(__name__)


def compile_training(
    model: nn.Module,
    config: ModelConfig,
    optimizer: Optimizer,
    dtype: torch.dtype,
    num_rows: int,
    *,
    is_alone: bool = True,
) -> LossFunction:
    """Compile the training step: return the compiled loss, and compile the optimizer's update.

    If something cannot be compiled, it runs uncompiled and a logged line says why.

    Args:
        model: The model to train.
        config: Configuration that the model was built from.
        optimizer: The optimizer of its parameters; its update is compiled in place.
        dtype: Type of the matrix products.
        num_rows: Sequences of a batch.
        is_alone: Whether this is the only process that trains the model.
    """
    device = next(model.parameters()).device
    num_positions = num_rows * config.context_length
    if isinstance(optimizer, StackedMuon):
        optimizer.dtype = dtype
    if is_alone and device.type == "cpu" and not path_that_stops_the_compiler():
        job = {
            "config": dataclasses.asdict(config),
            "dtype": str(dtype).removeprefix("torch."),
            "num_rows": num_rows,
            "num_threads": torch.get_num_threads(),
            "drops": drops(model),
        }
        try:
            loss_of = CompiledLoss(model, job, loss_function(model, dtype, num_positions))
        except NotCompiledError as error:
            logger.info("compiling in this process instead of another one: %s", error)
        else:
            use_kernel(model)  # For batches of another shape.
            if isinstance(optimizer, FusedAdamW):
                optimizer.use(loss_of.update)
            return loss_of
    if isinstance(optimizer, FusedAdamW):
        optimizer.compile(device)
    return compile_here(model, dtype, num_positions)


def compile_here(model: nn.Module, dtype: torch.dtype, num_positions: int) -> LossFunction:
    """Compile the loss of one model in this process."""
    device = next(model.parameters()).device
    if reason_not_to_compile(device) is None:
        use_kernel(model)  # By the same compiler, which would fail once more.
    loss_of = loss_function(model, dtype, num_positions)
    compiled = compile_if_possible(loss_of, device)
    if is_chunked(model, num_positions):
        return compiled  # Its forward computes the gradients too, but only with grad enabled.

    def loss_with_gradients(inputs: Tensor, targets: Tensor) -> Loss:
        # An evaluation reuses the graph of training: compiling a second one would cost more time
        # than it saves.
        with torch.enable_grad():
            return compiled(inputs, targets)

    return loss_with_gradients
