"""LayerNorm taken apart: which of its three steps does the work?

LayerNorm shifts a vector to mean 0, divides it by its standard deviation and multiplies by a gain
(and adds a bias, which `layernorm-no-bias` leaves out). RMSNorm is division and gain; here are
shift and gain, and gain alone. Neither of them bounds the size of its result: they are norms
only by their place in a block, and norm_eps has no effect on them.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cs_basics.variants.norms import widen


class GainOnly(nn.Module):
    """Multiply each coordinate by a learned gain: no normalisation at all.

    Args:
        d_model: Size of the last axis.
        device: Where the gain lives.
        dtype: Float type of the gain; it starts at 1.
    """

    def __init__(
        self,
        d_model: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.d_model = d_model
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))

    def forward(
        self, x: Float[Tensor, "... {self.d_model}"]
    ) -> Float[Tensor, "... {self.d_model}"]:
        """Return the scaled x, same shape and dtype."""
        return (widen(x) * self.weight).to(x.dtype)

    def extra_repr(self) -> str:
        """Name the size when the module is printed."""
        return f"d_model={self.d_model}"


class CentreOnlyNorm(GainOnly):
    """Shift each vector to mean 0, then multiply by the gain: LayerNorm without its division.

    (x - mean(x)) * weight; same arguments. It is linear: twice the input gives twice the output.
    """

    def forward(
        self, x: Float[Tensor, "... {self.d_model}"]
    ) -> Float[Tensor, "... {self.d_model}"]:
        """Return the shifted and scaled x, same shape and dtype."""
        wide = widen(x)
        return ((wide - wide.mean(dim=-1, keepdim=True)) * self.weight).to(x.dtype)
