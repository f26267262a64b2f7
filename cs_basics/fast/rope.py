"""Rotary position embedding with tables of cosines and sines, computed once."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from cs_basics.rope import RotaryPositionalEmbedding


class TabledRoPE(RotaryPositionalEmbedding):
    """RotaryPositionalEmbedding that looks its angles up; same arguments.

    The tables are buffers, so they follow the model to its device, but they are not saved.
    """

    cos: Float[Tensor, "max_seq_len half"]
    sin: Float[Tensor, "max_seq_len half"]

    def __init__(
        self,
        theta: float,
        d_head: int,
        max_seq_len: int,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(theta, d_head, max_seq_len, device)
        for name, table in zip(("cos", "sin"), self._tables(), strict=True):
            self.register_buffer(name, table.to(device), persistent=False)

    def _tables(self) -> tuple[Tensor, Tensor]:
        # On the CPU, which has float64.
        return super().cos_and_sin(torch.arange(self.max_seq_len, device="cpu"))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "TabledRoPE":
        # model.to(torch.bfloat16) also rounds buffers, and a rounded angle is a wrong position:
        # follow the model to its device, but in float32.
        super()._apply(fn, recurse)
        self.cos, self.sin = (table.to(self.cos.device) for table in self._tables())
        return self

    def cos_and_sin(self, positions: Int[Tensor, "... seq"]) -> tuple[Tensor, Tensor]:
        """Look the angles up; as in RotaryPositionalEmbedding."""
        return self.cos[positions], self.sin[positions]


def tabled(rope: RotaryPositionalEmbedding, device: torch.device) -> TabledRoPE:
    """Return the same rotation with tables."""
    if isinstance(rope, TabledRoPE):
        return rope
    return TabledRoPE(rope.theta, rope.d_head, rope.max_seq_len, device)
