"""Normalisation layers: RMSNorm, and LayerNorm to compare it with."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class RMSNorm(nn.Module):
    def __init__(
        self,
        d_model: int,
        eps: float = 1e-5,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if not eps >= 0:
            raise ValueError(f"eps={eps}: the root needs a number that is not negative")
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))
        self._floor = float(eps)

    def forward(
        self, x: Float[Tensor, "... {self.d_model}"]
    ) -> Float[Tensor, "... {self.d_model}"]:
        wide = x if x.dtype == torch.float64 else x.float()
        power = (wide * wide).sum(-1, keepdim=True) / wide.shape[-1]
        return (wide / (power + self._floor).sqrt() * self.weight.to(wide.dtype)).to(x.dtype)
