"""The norm of the model. Tested by `make test ARGS="-k norm"`."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """Divide each vector by its root mean square, then scale each coordinate by a learned gain.

    x / sqrt(mean(x^2) + eps) * weight; Zhang and Sennrich 2019, eq. 4
    (https://arxiv.org/abs/1910.07467), with eps added inside the root. The length of x then no
    longer matters to the layer that reads it. Its state dict has `weight`, (d_model,), which
    starts at 1.

    >>> RMSNorm(2)(torch.tensor([3.0, 4.0])).detach()  # divided by sqrt((9 + 16) / 2)
    tensor([0.8485, 1.1314])

    Args:
        d_model: Size of the last axis.
        eps: Added to the mean square, so that a zero vector stays zero (with eps=0: NaN).
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
        """Return the normalised x, same shape and dtype; computed in at least float32."""
        x32 = x.to(torch.promote_types(x.dtype, torch.float32))
        mean_square = (x32 * x32).mean(dim=-1, keepdim=True)
        normalised = x32 * torch.rsqrt(mean_square + self.eps)
        return (normalised * self.weight).to(x.dtype)
