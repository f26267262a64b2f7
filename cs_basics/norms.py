"""Normalisation layers. Tested by `make test ARGS="-k rmsnorm"`."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """Divide each vector by its root mean square, then scale each coordinate by a learned gain.

    x / sqrt(mean(x^2) + eps) * weight; Zhang and Sennrich 2019, eq. 4
    (https://arxiv.org/abs/1910.07467), with eps added inside the root.

    Args:
        d_model: Size of the last axis.
        eps: Added to the mean square, so that a zero vector stays zero.
        device: Where the gain lives.
        dtype: Float type of the gain; it starts at 1.
    """

    def __init__(
        self,
        d_model: int,
        eps: float = 1e-5,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.d_model, self.eps = d_model, eps
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))

    def forward(
        self, x: Float[Tensor, "... {self.d_model}"]
    ) -> Float[Tensor, "... {self.d_model}"]:
        """Return the normalised x, same shape and dtype; computed in at least float32.

        The square of 300 already overflows float16, and bfloat16 keeps only 8 bits of a mean.
        """
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean_square = wide.square().mean(dim=-1, keepdim=True)
        return (wide * torch.rsqrt(mean_square + self.eps) * self.weight).to(x.dtype)

    def extra_repr(self) -> str:
        """Name the sizes when the module is printed."""
        return f"d_model={self.d_model}, eps={self.eps}"
