"""The mean loss of a batch in mixed precision, computed at once or in chunks of its logits."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cs_basics.fast.chunked_loss import linear_cross_entropy
from cs_basics.fast.transformer import FastTransformer
from cs_basics.functional import cross_entropy
from cs_basics.layers import Linear

Loss = Float[Tensor, ""]
LossFunction = Callable[[Tensor, Tensor], Loss]
"""The mean loss of a batch, of inputs and targets."""

MANY_LOGITS = 1 << 24
"""Logits of a batch (64 MB in float32) from which the loss is computed in chunks on a CPU. With
fewer, chunks save no memory at the peak of a step, and computing all at once is faster."""


def loss_function(model: nn.Module, dtype: torch.dtype, num_positions: int) -> LossFunction:
    """Return the mean loss of a batch as a function of inputs and targets.

    Args:
        model: The language model.
        dtype: Type of the matrix products; weights, norms, softmax and loss stay float32.
        num_positions: Tokens of a batch.
    """
    device_type = next(model.parameters()).device.type
    is_mixed = dtype != torch.float32

    def loss_of(inputs: Tensor, targets: Tensor) -> Loss:
        with torch.autocast(device_type, dtype=dtype if is_mixed else None, enabled=is_mixed):
            logits = model(inputs)
        return cross_entropy(logits, targets)

    def chunked_loss_of(inputs: Tensor, targets: Tensor) -> Loss:
        assert isinstance(model, FastTransformer)
        with torch.autocast(device_type, dtype=dtype if is_mixed else None, enabled=is_mixed):
            hidden = model.hidden(inputs)
        if is_mixed:
            hidden = hidden.to(dtype)
        return linear_cross_entropy(hidden, model.lm_head.weight, targets)

    return chunked_loss_of if is_chunked(model, num_positions) else loss_of


def is_chunked(model: nn.Module, num_positions: int) -> bool:
    """Tell whether the loss of a batch is computed in chunks."""
    return (
        isinstance(model, FastTransformer)
        and type(model.lm_head) is Linear  # linear_cross_entropy takes no bias.
        and model.lm_head.weight.device.type == "cpu"
        and num_positions * model.vocab_size >= MANY_LOGITS
    )
