"""Rotary position embedding."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class RotaryPositionalEmbedding(nn.Module):
    def __init__(
        self,
        theta: float,
        d_head: int,
        max_seq_len: int,
        device: torch.device | str | None = None,
    ) -> None:
        if d_head % 2:
            raise ValueError(f"d_head={d_head} is odd: there is a coordinate without a partner")
        super().__init__()
        places = torch.arange(max_seq_len, dtype=torch.float64)
        speeds = [float(theta) ** (-2 * i / d_head) for i in range(d_head // 2)]
        angles = places[:, None] * torch.tensor(speeds, dtype=torch.float64)
        units = torch.stack([angles.cos(), angles.sin()], -1)
        # As bits: model.to(torch.bfloat16) changes every float and complex buffer, but no integers.
        self.register_buffer("_bits", units.view(torch.int64).to(device), persistent=False)

    def forward(
        self, x: Float[Tensor, "... seq {self.d_head}"], positions: Int[Tensor, "... seq"]
    ) -> Float[Tensor, "... seq {self.d_head}"]:
        units = torch.view_as_complex(self._bits[positions.long()].view(torch.float64))
        if x.dtype == torch.float64:
            pairs = x
        else:
            pairs, units = x.float(), units.to(torch.complex64)
        pairs = pairs.reshape(*x.shape[:-1], x.shape[-1] // 2, 2)
        turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * units)
        return turned.reshape(*turned.shape[:-2], x.shape[-1]).to(x.dtype)
