"""Normalisation layers.

The model uses RMSNorm; LayerNorm is here to compare it with. Both treat every vector along the
last axis by itself, compute in at least float32 and return the dtype of their input. Gains start at
1, biases at 0; `device` and `dtype` mean the same as in layers.py.

Tested by `make test ARGS="-k norm"`.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """Divide each vector by its root mean square, then scale each coordinate by a learned gain.

    x / sqrt(mean(x^2) + eps) * weight; Zhang and Sennrich 2019, eq. 4
    (https://arxiv.org/abs/1910.07467), with eps added inside the root. Its state dict has `weight`,
    (d_model,).

    Args:
        d_model: Size of the last axis.
        eps: Added to the mean square, so that a zero vector stays zero (with eps=0: NaN).

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
        super().__init__()
        if not eps >= 0:
            raise ValueError(f"eps={eps} must be 0 or greater")
        self.d_model, self.eps = d_model, eps
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))

    def forward(
        self, x: Float[Tensor, "... {self.d_model}"]
    ) -> Float[Tensor, "... {self.d_model}"]:
        """Return the normalised x, same shape and dtype.

        Vectors with a norm above 1.8e19 are not supported: the sum of squares overflows float32.
        """
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean_square = (wide * wide).mean(dim=-1, keepdim=True)
        normalised = wide * torch.rsqrt(mean_square + self.eps)
        return (normalised * self.weight).to(x.dtype)

    def extra_repr(self) -> str:
        """Name the choices when the module is printed."""
        return f"d_model={self.d_model}, eps={self.eps}"


class LayerNorm(nn.Module):
    """Shift each vector to mean 0 and divide it by its standard deviation; apply gain and bias.

    (x - mean(x)) / sqrt(var(x) + eps) * weight + bias; Ba, Kiros and Hinton 2016, eq. 4
    (https://arxiv.org/abs/1607.06450), with eps added inside the root; the variance is the mean
    of the squared deviations (divided by d_model, not by d_model - 1). Without the bias
    it is RMSNorm applied to x - mean(x).

    Args:
        d_model: Size of the last axis.
        eps: Added to the variance, so that a constant vector is not divided by 0.
        bias: Whether there is a bias.

    Raises:
        ValueError: eps is negative.
    """

    def __init__(
        self,
        d_model: int,
        eps: float = 1e-5,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if not eps >= 0:
            raise ValueError(f"eps={eps} must be 0 or greater")
        self.d_model, self.eps = d_model, eps
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))
        zeros = torch.zeros(d_model, device=device, dtype=dtype)
        self.bias = nn.Parameter(zeros) if bias else None

    def forward(
        self, x: Float[Tensor, "... {self.d_model}"]
    ) -> Float[Tensor, "... {self.d_model}"]:
        """Return the normalised x, same shape and dtype."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        deviation = wide - wide.mean(dim=-1, keepdim=True)
        variance = (deviation * deviation).mean(dim=-1, keepdim=True)
        result = deviation * torch.rsqrt(variance + self.eps) * self.weight
        if self.bias is not None:
            result = result + self.bias
        return result.to(x.dtype)

    def extra_repr(self) -> str:
        """Name the choices when the module is printed."""
        return f"d_model={self.d_model}, eps={self.eps}, bias={self.bias is not None}"
