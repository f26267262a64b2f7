"""Normalisation layers: RMSNorm, and below it LayerNorm and the other relatives.

Each works on the vectors along the last axis, every vector alone, computes in at least float32
and returns the dtype of its input. Read after functional.py; norm_function.py holds the same
RMSNorm with a backward derived by hand. Tested by `make test ARGS="-k norm"`.
"""

import math

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from cs_basics.functional import silu

SHRINK = 2.0**-80  # The square of 2^128 / 2^80 is 2^96: room for the sum of 2^31 of them.
# Far below the overflow, since the gradient divides by the mean square; far above every eps.
LARGE_MEAN_SQUARE = 2.0**60


class RMSNorm(nn.Module):
    """Divide each vector by its root mean square, then scale each coordinate by a learned gain.

    x / sqrt(mean(x^2) + eps) * weight; Zhang and Sennrich 2019, eq. 4
    (https://arxiv.org/abs/1910.07467), with eps added inside the root.

    Args:
        d_model: Size of the last axis.
        eps: Added to the mean square, so that a zero vector stays zero (with eps=0: NaN).
        device: Where the gain lives.
        dtype: Float type of the gain; it starts at 1.
        cast_before_gain: Cast to the dtype of x first and multiply by the gain then, as Llama
            does (https://github.com/meta-llama/llama, model.py). In bfloat16 the result is then
            rounded twice, by up to 2^-8 of its size each time, instead of once; where the gain is
            a power of two, as at the start of training, the two orders agree exactly.

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
        cast_before_gain: bool = False,
    ) -> None:
        super().__init__()
        check_eps(eps)
        self.d_model, self.eps, self.cast_before_gain = d_model, eps, cast_before_gain
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))

    def forward(
        self, x: Float[Tensor, "... {self.d_model}"]
    ) -> Float[Tensor, "... {self.d_model}"]:
        """Return the normalised x, same shape and dtype.

        Raises:
            ValueError: The last axis of x is not d_model.
        """
        check_last_axis(x, self.d_model)
        normalised = self.normalise(widen(x))
        if self.cast_before_gain:
            normalised = normalised.to(x.dtype)
        return (normalised * self.weight).to(x.dtype)

    def normalise(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Return x before the gain; x is in at least float32."""
        return x / root_mean_square(x, self.eps)

    def add_rms_norm(
        self, x: Float[Tensor, "... {self.d_model}"], residual: Float[Tensor, "... {self.d_model}"]
    ) -> tuple[Float[Tensor, "... {self.d_model}"], Float[Tensor, "... {self.d_model}"]]:
        """Add x to the residual stream and normalise the sum: (normalised, new_residual).

        Between two parts of a block the sum is written and at once read again by the next norm.
        Asked for in one call, a compiler or a kernel can do both while the vector is at hand.

        Raises:
            ValueError: x and residual differ in shape, or their last axis is not d_model.
        """
        check_same_shape("residual", residual, x)
        new_residual = residual + x
        return self(new_residual), new_residual

    def extra_repr(self) -> str:
        """Name the choices when the module is printed."""
        return f"d_model={self.d_model}, eps={self.eps}, cast_before_gain={self.cast_before_gain}"


def root_mean_square(x: Float[Tensor, "... d"], eps: float) -> Float[Tensor, "... 1"]:
    """Return sqrt(mean(x^2) + eps) of each vector, for numbers of any size.

    float32 and bfloat16 end at 2^128, where the square of 2^64 has overflowed already. So the mean
    is taken a second time, of the squares of x / 2^80, and this one serves the large vectors.
    Both sums come from one pass over x; dividing by the largest value needs another pass before
    it, and float64, which could hold the squares, is not to be had on every device.
    """
    # x * x and not x.square(), whose gradient overflows: it doubles x first.
    mean_square = (x * x).mean(dim=-1, keepdim=True)
    shrunk = x * SHRINK
    shrunk_mean_square = (shrunk * shrunk).mean(dim=-1, keepdim=True)
    is_large = mean_square > LARGE_MEAN_SQUARE
    root = torch.sqrt(torch.where(is_large, shrunk_mean_square, mean_square + eps))
    # A mean is not above the largest number, but a rounding can lift it there: to infinity.
    excess = (root - torch.finfo(x.dtype).max * SHRINK).clamp(min=0).detach()
    return torch.where(is_large, (root - excess) / SHRINK, root)


class LayerNorm(nn.Module):
    """Shift each vector to mean 0 and divide it by its standard deviation; then gain and bias.

    (x - mean(x)) / sqrt(var(x) + eps) * weight + bias; Ba, Kiros and Hinton 2016, eq. 4
    (https://arxiv.org/abs/1607.06450), with eps added inside the root; the variance is the mean
    of the squared deviations (divided by d_model, not by d_model - 1). It is the RMSNorm of the
    deviations: without bias, and for vectors of mean 0, the two are the same.

    Args:
        d_model: Size of the last axis.
        eps: Added to the variance, so that a constant vector becomes zero.
        device: Where gain and bias live.
        dtype: Float type of gain and bias; they start at 1 and 0.
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
        check_eps(eps)
        self.d_model, self.eps = d_model, eps
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))
        zeros = torch.zeros(d_model, device=device, dtype=dtype)
        self.bias = nn.Parameter(zeros) if bias else None

    def forward(
        self, x: Float[Tensor, "... {self.d_model}"]
    ) -> Float[Tensor, "... {self.d_model}"]:
        """Return the normalised x, same shape and dtype.

        Raises:
            ValueError: The last axis of x is not d_model.
        """
        check_last_axis(x, self.d_model)
        # Halves, since a deviation may be twice as large as the largest number; and terms of the
        # mean that are divided by d_model first, since the sum of x may be larger too.
        half = widen(x) / 2
        deviation = half - (half / self.d_model).sum(dim=-1, keepdim=True)
        normalised = deviation / root_mean_square(deviation, self.eps / 4)
        result = normalised * self.weight
        if self.bias is not None:
            result = result + self.bias
        return result.to(x.dtype)

    def extra_repr(self) -> str:
        """Name the choices when the module is printed."""
        return f"d_model={self.d_model}, eps={self.eps}, bias={self.bias is not None}"


class PartialRMSNorm(RMSNorm):
    """Estimate the root mean square from the first coordinates alone, divide all of them by it.

    pRMSNorm, Zhang and Sennrich 2019, sec. 5 (https://arxiv.org/abs/1910.07467): the first
    ceil(fraction * d_model) coordinates. Their experiments use 6.25 %; code that is passed
    around often uses d_model / 8, which is 12.5 %.

    Args:
        d_model: Size of the last axis.
        eps: Added to the mean square.
        device: Where the gain lives.
        dtype: Float type of the gain; it starts at 1.
        cast_before_gain: As in RMSNorm.
        fraction: Share of the coordinates that is measured, above 0 and at most 1.

    Raises:
        ValueError: fraction is out of its range, or eps is negative.
    """

    def __init__(
        self,
        d_model: int,
        eps: float = 1e-5,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        cast_before_gain: bool = False,
        fraction: float = 0.0625,
    ) -> None:
        super().__init__(d_model, eps, device, dtype, cast_before_gain=cast_before_gain)
        if not 0 < fraction <= 1:
            raise ValueError(f"fraction={fraction} must be above 0 and at most 1")
        # 0.07 * 100 is 7.000000000000001 in floating point: 7 coordinates are meant, not 8.
        self.num_measured = max(1, math.ceil(fraction * d_model - 1e-9))

    def normalise(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Return x before the gain; x is in at least float32."""
        return x / root_mean_square(x[..., : self.num_measured], self.eps)

    def extra_repr(self) -> str:
        """Name the choices when the module is printed."""
        return f"{super().extra_repr()}, num_measured={self.num_measured}"


class GroupRMSNorm(RMSNorm):
    """Divide each group of neighbouring coordinates by a root mean square of its own.

    Group normalisation (Wu and He 2018, sec. 3.1, https://arxiv.org/abs/1803.08494) without the
    mean, and over the last axis alone. Groups know nothing of each other, so that they can live on
    different devices (Dao and Gu 2024, sec. 8.1, https://arxiv.org/abs/2405.21060).

    Args:
        d_model: Size of the last axis.
        eps: Added to each mean square.
        device: Where the gain lives.
        dtype: Float type of the gain; it starts at 1.
        cast_before_gain: As in RMSNorm.
        num_groups: Groups of equal size; 1 is RMSNorm.

    Raises:
        ValueError: num_groups does not divide d_model, or eps is negative.
    """

    def __init__(
        self,
        d_model: int,
        eps: float = 1e-5,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        cast_before_gain: bool = False,
        num_groups: int,
    ) -> None:
        super().__init__(d_model, eps, device, dtype, cast_before_gain=cast_before_gain)
        if num_groups < 1 or d_model % num_groups:
            raise ValueError(f"num_groups={num_groups} must be a divisor of d_model={d_model}")
        self.num_groups = num_groups

    def normalise(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Return x before the gain; x is in at least float32."""
        groups = rearrange(x, "... (group d) -> ... group d", group=self.num_groups)
        groups = groups / root_mean_square(groups, self.eps)
        return rearrange(groups, "... group d -> ... (group d)")

    def extra_repr(self) -> str:
        """Name the choices when the module is printed."""
        return f"{super().extra_repr()}, num_groups={self.num_groups}"


class GatedRMSNorm(nn.Module):
    """Normalise, and let a second input decide how much of each coordinate passes.

    RMSNorm(x) * SiLU(gate), or with the gate first RMSNorm(x * SiLU(gate)): the norm before the
    output projection of Mamba-2 (Dao and Gu 2024, sec. 7.1, https://arxiv.org/abs/2405.21060),
    whose code knows both orders and by default puts the gate first. All of it is computed in at
    least float32 and rounded once.

    Args:
        d_model: Size of the last axis.
        eps: Added to the mean square.
        device: Where the gain lives.
        dtype: Float type of the gain; it starts at 1.
        gate_first: Gate what goes into the norm instead of what comes out.

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
        gate_first: bool = False,
    ) -> None:
        super().__init__()
        check_eps(eps)
        self.d_model, self.eps, self.gate_first = d_model, eps, gate_first
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))

    def forward(
        self, x: Float[Tensor, "... {self.d_model}"], gate: Float[Tensor, "... {self.d_model}"]
    ) -> Float[Tensor, "... {self.d_model}"]:
        """Return the gated and normalised x, same shape and dtype.

        Raises:
            ValueError: x and gate differ in shape, or their last axis is not d_model.
        """
        check_last_axis(x, self.d_model)
        check_same_shape("gate", gate, x)
        wide, opening = widen(x), silu(widen(gate))
        if self.gate_first:
            wide = wide * opening
        result = wide / root_mean_square(wide, self.eps) * self.weight
        if not self.gate_first:
            result = result * opening
        return result.to(x.dtype)

    def extra_repr(self) -> str:
        """Name the choices when the module is printed."""
        return f"d_model={self.d_model}, eps={self.eps}, gate_first={self.gate_first}"


def widen(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return x in at least float32: bfloat16 keeps only 8 bits of a mean."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def check_eps(eps: float) -> None:
    """Raise ValueError if eps is negative."""
    if not eps >= 0:
        raise ValueError(f"eps={eps} must be 0 or greater")


def check_last_axis(x: Float[Tensor, "..."], d_model: int) -> None:
    """Raise ValueError if the last axis of x is not d_model; an axis of 1 would be broadcast."""
    if x.shape[-1:] != (d_model,):
        raise ValueError(f"x of shape {tuple(x.shape)} must end in an axis of d_model={d_model}")


def check_same_shape(name: str, other: Float[Tensor, "..."], x: Float[Tensor, "..."]) -> None:
    """Raise ValueError if the second input differs from x in shape; it would be broadcast."""
    if other.shape != x.shape:
        raise ValueError(f"{name} of shape {tuple(other.shape)} must be like x, {tuple(x.shape)}")
