"""Dropout of what attention and feed-forward parts add to the residual stream.

Srivastava et al. 2014, sec. 4 (https://jmlr.org/papers/v15/srivastava14a.html); in this place
Vaswani et al. 2017, sec. 5.4 (https://arxiv.org/abs/1706.03762). A model that reads a small text
many times learns it by heart; with a random part of itself missing each time, it does so less.

The masks are not drawn in the forward pass. They are buffers, drawn before each batch, so that the
code compiled for training also serves for evaluation, with masks of ones.

Dropout begins late (Liu et al. 2023, https://arxiv.org/abs/2303.01500): it slows learning at first,
when nothing has been learnt by heart yet.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

NAME = "dropout_mask"
BEGINS_AT = 0.3
"""Share of the run before which nothing is dropped."""
LEVELS = 256
"""Values of a byte: one random byte per number decides whether the number is dropped."""


class Dropout:
    """The masks of a model's parts; they do nothing until they are drawn.

    Args:
        model: A model with its blocks in `layers`, and in each the parts `attn` and `ffn`.
        share: Share of values to drop, rounded to 1/256, but never to 0 or 1. 0: the model is left
            as it is.
        shape: Batch, sequence and d_model of what a part returns. Outputs of any other shape, as
            in generation, are left as they are.

    Raises:
        ValueError: The share is negative, or 1 or more.
    """

    def __init__(self, model: nn.Module, share: float, shape: Sequence[int]) -> None:
        if not 0 <= share < 1:
            raise ValueError(f"dropout={share} must be at least 0 and below 1")
        self.level = min(max(round(share * LEVELS), 1), LEVELS - 1) if share else 0
        self.masks: list[Tensor] = []
        blocks: Any = model.layers if self.level else []
        device = next(model.parameters()).device
        for block in blocks:
            for part in (block.attn, block.ffn):
                part.register_buffer(NAME, torch.ones(*shape, device=device), persistent=False)
                part.register_forward_hook(_drop)
                self.masks.append(getattr(part, NAME))

    def draw(self, *seed: int, progress: float = 1.0) -> None:
        """Draw all masks anew for the next batch.

        Args:
            seed: The same numbers give the same masks.
            progress: Finished share of the run; below BEGINS_AT nothing is dropped.
        """
        if progress < BEGINS_AT:
            self.rest()
            return
        random = np.random.default_rng(seed)
        # Kept numbers are scaled up, so that the expected output stays the same.
        scale = LEVELS / (LEVELS - self.level)
        for mask in self.masks:
            numbers = np.frombuffer(random.bytes(mask.numel()), dtype=np.uint8).reshape(mask.shape)
            mask.copy_(torch.from_numpy((numbers >= self.level) * np.float32(scale)))

    def rest(self) -> None:
        """Drop nothing until the next `draw`."""
        for mask in self.masks:
            mask.fill_(1.0)


def drops(model: nn.Module) -> bool:
    """Tell whether a model has masks."""
    return any(name.endswith(f".{NAME}") for name, _ in model.named_buffers())


def _drop(part: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    mask: Any = getattr(part, NAME)
    return output * mask if output.shape == mask.shape else output
