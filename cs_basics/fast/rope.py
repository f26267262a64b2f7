"""Rotary position embedding with tables of cosines and sines, computed once."""

from collections.abc import Callable

import torch
from einops import rearrange
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
        cos, sin = self._tables()
        self.register_buffer("cos", cos.to(device), persistent=False)
        self.register_buffer("sin", sin.to(device), persistent=False)

    def _tables(self) -> tuple[Tensor, Tensor]:
        # On the CPU, which has float64.
        exponents = torch.arange(0, self.d_head, 2, dtype=torch.float64, device="cpu") / self.d_head
        positions = torch.arange(self.max_seq_len, dtype=torch.float64, device="cpu")
        angles = torch.outer(positions, self.theta**-exponents)
        return angles.cos().float(), angles.sin().float()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "TabledRoPE":
        # model.to(torch.bfloat16) also rounds buffers, and a rounded angle is a wrong position:
        # follow the model to its device, but in float32.
        super()._apply(fn, recurse)
        self.cos, self.sin = (table.to(self.cos.device) for table in self._tables())
        return self

    def forward(
        self, x: Float[Tensor, "... seq {self.d_head}"], positions: Int[Tensor, "... seq"]
    ) -> Float[Tensor, "... seq {self.d_head}"]:
        """Rotate x; arguments and result as in RotaryPositionalEmbedding."""
        cos, sin = self.cos[positions], self.sin[positions]
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        even, odd = wide[..., 0::2], wide[..., 1::2]
        rotated = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
        return rearrange(rotated, "... half pair -> ... (half pair)").to(x.dtype)


def tabled(rope: RotaryPositionalEmbedding, device: torch.device) -> TabledRoPE:
    """Return the same rotation with tables."""
    if isinstance(rope, TabledRoPE):
        return rope
    return TabledRoPE(rope.theta, rope.d_head, rope.max_seq_len, device)
