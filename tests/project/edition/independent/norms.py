"""Normalisation layers: RMSNorm, and LayerNorm to compare it with.

Yours to write (docs/handout.md); examined by `make test ARGS="--problem NAME"`:

    rmsnorm                             RMSNorm (4 points)
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """Divide each vector by its root mean square, then scale each coordinate by a learned gain.

    x / sqrt(mean(x^2) + eps) * weight; Zhang and Sennrich 2019, eq. 4
    (https://arxiv.org/abs/1910.07467), with eps added inside the root.

    Args:
        d_model: Size of the last axis.
        eps: Added to the mean square, so that a zero vector stays zero (with eps=0: NaN).
        device: Where the gain lives.
        dtype: Float type of the gain; it starts at 1.

    Raises:
        ValueError: eps is negative.
    """

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
        """Return the normalised x, same shape and dtype.

        The squares of values above 1.8e19 are more than float32 holds: outside its range.
        """
        wide = x if x.dtype == torch.float64 else x.float()
        power = (wide * wide).sum(-1, keepdim=True) / wide.shape[-1]
        return (wide / (power + self._floor).sqrt() * self.weight.to(wide.dtype)).to(x.dtype)
