"""The feed-forward part without a gate."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cs_basics.functional import silu
from cs_basics.layers import Linear


class SiLUFeedForward(nn.Module):
    """The feed-forward part without a gate: W2 SiLU(W1 x).

    Vaswani et al. 2017, eq. 2 (https://arxiv.org/abs/1706.03762), with SiLU for ReLU and without
    biases. Two matrices instead of three: with d_ff = 4 d_model it has the weights of a SwiGLU of
    8/3 d_model.

    Args:
        d_model: Size of the last axis of input and output.
        d_ff: Size of the hidden layer.
        device: Where the weights live.
        dtype: Float type of the weights.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.w1 = Linear(d_model, d_ff, device, dtype)
        self.w2 = Linear(d_ff, d_model, device, dtype)

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Return the transformed x, same shape."""
        return self.w2(silu(self.w1(x)))
