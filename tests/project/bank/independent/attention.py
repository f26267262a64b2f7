"""Causal self-attention over several heads."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from cs_basics.functional import scaled_dot_product_attention
from cs_basics.layers import Linear
from cs_basics.rope import RotaryPositionalEmbedding


class CausalSelfAttention(nn.Module):
    def __init__(
        self,
        d_model: int,
        num_heads: int,
        rope: RotaryPositionalEmbedding | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if num_heads < 1 or d_model % num_heads:
            raise ValueError(f"d_model={d_model} cannot be shared out to num_heads={num_heads}")
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj", "output_proj"):
            setattr(self, name, Linear(d_model, d_model, device=device, dtype=dtype))
        self._parts = num_heads
        self._turner = rope

    def forward(
        self,
        x: Float[Tensor, "... seq d_model"],
        positions: Int[Tensor, "... seq"] | None = None,
    ) -> Float[Tensor, "... seq d_model"]:
        q = self._split(self.q_proj(x))
        k = self._split(self.k_proj(x))
        v = self._split(self.v_proj(x))
        length = x.shape[-2]
        if self._turner is not None:
            if positions is None:
                positions = torch.arange(length, device=x.device)
            # (..., seq) -> (..., 1, seq): all heads of a sequence are turned alike
            per_head = positions.unsqueeze(-2)
            q, k = self._turner(q, per_head), self._turner(k, per_head)
        place = torch.arange(length, device=x.device)
        mixed = scaled_dot_product_attention(q, k, v, place[:, None] >= place[None, :])
        side_by_side = mixed.transpose(-3, -2).reshape(x.shape)
        return self.output_proj(side_by_side)

    def _split(self, y: Tensor) -> Tensor:
        """(..., seq, d_model) -> (..., heads, seq, d_head)."""
        return y.reshape(*y.shape[:-1], self._parts, y.shape[-1] // self._parts).transpose(-3, -2)
