"""SwiGLU with one matrix product for gate and up, and `stack`, which joins their weights."""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor

from cs_basics.functional import silu
from cs_basics.layers import SwiGLU


class FusedSwiGLU(SwiGLU):
    """SwiGLU with one product for gate and up (W1 and W3 stacked); same arguments."""

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Return the transformed x, same shape."""
        stacked = stack([self.w1.weight, self.w3.weight])
        gate, up = (x @ stacked.T).chunk(2, dim=-1)
        return self.w2(silu(gate) * up)


def stack(weights: Iterable[Float[Tensor, "_ d_in"]]) -> Float[Tensor, "rows d_in"]:
    """Stack weight matrices for one product, cast to the autocast dtype if autocast is on.

    The product would cast the stacked matrix anyway; casting first saves one copy in float32.
    """
    weights = list(weights)
    device = weights[0].device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        weights = [weight.to(dtype) for weight in weights]
    return torch.cat(weights)
