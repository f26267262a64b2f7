"""LayerNorm, and relatives of RMSNorm: Llama's and Gemma's gain, partial and group RMSNorm.

Each treats every vector along the last axis by itself, computes in at least float32 and returns
the dtype of its input. Read cs_basics/norms.py first. Tested by `make test ARGS="-k norm"`.
"""

import math

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from cs_basics.norms import RMSNorm


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
        self.d_model, self.eps = d_model, eps
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))
        zeros = torch.zeros(d_model, device=device, dtype=dtype)
        self.bias = nn.Parameter(zeros) if bias else None

    def forward(
        self, x: Float[Tensor, "... {self.d_model}"]
    ) -> Float[Tensor, "... {self.d_model}"]:
        """Return the normalised x, same shape and dtype."""
        wide = widen(x)
        deviation = wide - wide.mean(dim=-1, keepdim=True)
        variance = (deviation * deviation).mean(dim=-1, keepdim=True)
        result = deviation * torch.rsqrt(variance + self.eps) * self.weight
        if self.bias is not None:
            result = result + self.bias
        return result.to(x.dtype)


class LlamaRMSNorm(RMSNorm):
    """RMSNorm that first casts to the dtype of x and then multiplies by the gain.

    The order of Llama's own code (https://github.com/meta-llama/llama, model.py). In bfloat16 the
    result is rounded twice, by up to 2^-8 of its size each time, instead of once; where the gain is
    a power of two, as at the start of training, the two orders agree exactly. Same arguments.
    """

    def forward(
        self, x: Float[Tensor, "... {self.d_model}"]
    ) -> Float[Tensor, "... {self.d_model}"]:
        """Return the normalised x, same shape and dtype."""
        wide = widen(x)
        normalised = wide * reciprocal_rms(wide, self.eps)
        return (normalised.to(x.dtype) * self.weight).to(x.dtype)


class GemmaRMSNorm(RMSNorm):
    """RMSNorm whose weight is the gain's difference from 1, and starts at 0.

    x / sqrt(mean(x^2) + eps) * (1 + weight), in float32 and rounded once, as in Gemma's own code
    (https://github.com/google-deepmind/gemma). The function is RMSNorm's, but weight decay draws
    the gains to 1 instead of 0, and a bfloat16 has finer steps around 0 than around 1. Same
    arguments.
    """

    def __init__(
        self,
        d_model: int,
        eps: float = 1e-5,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(d_model, eps, device, dtype)
        self.weight = nn.Parameter(torch.zeros_like(self.weight))

    @property
    def gain(self) -> Float[Tensor, " d_model"]:
        """What the normalised vectors are multiplied by, in at least float32."""
        return 1 + widen(self.weight)

    def forward(
        self, x: Float[Tensor, "... {self.d_model}"]
    ) -> Float[Tensor, "... {self.d_model}"]:
        """Return the normalised x, same shape and dtype."""
        wide = widen(x)
        return (wide * reciprocal_rms(wide, self.eps) * self.gain).to(x.dtype)


class PartialRMSNorm(RMSNorm):
    """Estimate the root mean square from the first coordinates and divide all coordinates by it.

    pRMSNorm, Zhang and Sennrich 2019, sec. 5 (https://arxiv.org/abs/1910.07467): the first
    ceil(fraction * d_model) coordinates. Their experiments use 6.25 %.

    Args:
        d_model: Size of the last axis.
        eps: Added to the mean square.
        device: Where the gain lives.
        dtype: Float type of the gain; it starts at 1.
        fraction: Share of the coordinates that is measured, above 0 and at most 1.

    Raises:
        ValueError: fraction is out of its range.
    """

    def __init__(
        self,
        d_model: int,
        eps: float = 1e-5,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        fraction: float = 0.0625,
    ) -> None:
        super().__init__(d_model, eps, device, dtype)
        if not 0 < fraction <= 1:
            raise ValueError(f"fraction={fraction} must be above 0 and at most 1")
        # 0.07 * 100 is 7.000000000000001 in floating point: 7 coordinates are meant, not 8.
        self.num_measured = max(1, math.ceil(fraction * d_model - 1e-9))

    def forward(
        self, x: Float[Tensor, "... {self.d_model}"]
    ) -> Float[Tensor, "... {self.d_model}"]:
        """Return the normalised x, same shape and dtype."""
        wide = widen(x)
        measured = wide[..., : self.num_measured]
        return (wide * reciprocal_rms(measured, self.eps) * self.weight).to(x.dtype)


class GroupRMSNorm(RMSNorm):
    """Divide each group of neighbouring coordinates by a root mean square of its own.

    Group normalisation (Wu and He 2018, sec. 3.1, https://arxiv.org/abs/1803.08494) without the
    mean, and over the last axis alone. Groups are independent of each other, so that they can live
    on different devices (Dao and Gu 2024, sec. 8.1, https://arxiv.org/abs/2405.21060).

    Args:
        d_model: Size of the last axis.
        eps: Added to each mean square.
        device: Where the gain lives.
        dtype: Float type of the gain; it starts at 1.
        num_groups: Groups of equal size; 1 is RMSNorm.

    Raises:
        ValueError: num_groups does not divide d_model.
    """

    def __init__(
        self,
        d_model: int,
        eps: float = 1e-5,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        num_groups: int,
    ) -> None:
        super().__init__(d_model, eps, device, dtype)
        if num_groups < 1 or d_model % num_groups:
            raise ValueError(f"num_groups={num_groups} must be a divisor of d_model={d_model}")
        self.num_groups = num_groups

    def forward(
        self, x: Float[Tensor, "... {self.d_model}"]
    ) -> Float[Tensor, "... {self.d_model}"]:
        """Return the normalised x, same shape and dtype."""
        groups = rearrange(widen(x), "... (group d) -> ... group d", group=self.num_groups)
        groups = groups * reciprocal_rms(groups, self.eps)
        normalised = rearrange(groups, "... group d -> ... (group d)")
        return (normalised * self.weight).to(x.dtype)


def widen(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return x in at least float32: bfloat16 keeps only 8 bits of a mean."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def reciprocal_rms(x: Float[Tensor, "... d"], eps: float) -> Float[Tensor, "... 1"]:
    """Return 1 / sqrt(mean(x^2) + eps) of each vector; x is in at least float32."""
    return torch.rsqrt((x * x).mean(dim=-1, keepdim=True) + eps)
