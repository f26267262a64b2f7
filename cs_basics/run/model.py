"""The model of a run and its compiled loss, made with what is there beyond the book."""

import dataclasses
import logging
from collections.abc import Callable

import torch
from torch import Tensor

from cs_basics.run.model_config import ModelConfig
from cs_basics.run.rooms import NEEDS, accelerate, beyond_the_book, has_room
from cs_basics.transformer import TransformerLM

LossFunction = Callable[[Tensor, Tensor], Tensor]

logger = logging.getLogger(__name__)


def build_model(
    config: ModelConfig, device: torch.device | str | None = None, *, is_fast: bool = False
) -> TransformerLM:
    """Build the model that a configuration describes: the book's, unless it asks for more.

    Args:
        config: The sizes and the choices.
        device: Where the weights live.
        is_fast: Build it of fast twins, where there are any.

    Raises:
        ValueError: The device cannot compute what the book computes.
    """
    if not is_fast and device is not None and torch.device(device).type == "mps":
        raise ValueError("fast=off needs float64, which device=mps lacks: use fast=auto or the cpu")
    if beyond_the_book(config) or (is_fast and has_room("fast")):
        from cs_basics.variants.model import Transformer

        return (accelerate(Transformer) if is_fast else Transformer)(config, device)
    sizes = {name: value for name, value in dataclasses.asdict(config).items() if name not in NEEDS}
    model = TransformerLM(**sizes, device=device)
    # generate.py reads both, which a student's model need not keep.
    for name in ("vocab_size", "context_length"):
        if not hasattr(model, name):
            setattr(model, name, sizes[name])
    return model


def compile_loss(loss_of: LossFunction, device: torch.device) -> LossFunction:
    """Compile a loss; it runs uncompiled, with a logged reason, where that fails."""
    if has_room("fast"):
        from cs_basics.fast import compile_if_possible

        return compile_if_possible(loss_of, device)
    current = compiled = torch.compile(loss_of)

    def call(inputs: Tensor, targets: Tensor) -> Tensor:
        nonlocal current
        try:
            return current(inputs, targets)
        except Exception as error:
            if current is not compiled:
                raise
            # An error in a student's code comes again below, with a traceback that can be read.
            reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
            logger.warning("torch.compile does not work here, so the run is slower: %s", reason)
            current = loss_of
            return current(inputs, targets)

    return call
