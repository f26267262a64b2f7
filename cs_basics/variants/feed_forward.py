"""Feed-forward parts without a gate, with one of four activations."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cs_basics.functional import silu
from cs_basics.layers import Linear


def relu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Cut off what is negative: max(x, 0).

    The activation of the first Transformer (Vaswani et al. 2017, eq. 2,
    https://arxiv.org/abs/1706.03762).
    """
    return x.clamp(min=0)


def relu_squared(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Square what is positive: max(x, 0)^2.

    So et al. 2021, sec. 4.2 (https://arxiv.org/abs/2109.08668).
    """
    positive = relu(x)
    return positive * positive


def gelu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Multiply each value by the share of a normal distribution that lies below it.

    x (1 + erf(x / sqrt(2))) / 2, the exact form; Hendrycks and Gimpel 2016, sec. 2
    (https://arxiv.org/abs/1606.08415).
    """
    return x * (0.5 * (1 + torch.erf(x / math.sqrt(2))))


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": silu,
    "relu": relu,
    "gelu": gelu,
    "relu-squared": relu_squared,
}


class FeedForward(nn.Module):
    """The feed-forward part without a gate: W2 f(W1 x).

    Two matrices instead of three: with d_ff = 4 d_model it has as many weights as a SwiGLU
    with d_ff = 8/3 d_model.

    Args:
        d_model: Size of the last axis of input and output.
        d_ff: Size of the hidden layer.
        device: Where the weights live.
        dtype: Float type of the weights.
        activation: The name of f in ACTIVATIONS.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        activation: str,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.w1 = Linear(d_model, d_ff, device, dtype)
        self.w2 = Linear(d_ff, d_model, device, dtype)

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Return the transformed x, same shape."""
        return self.w2(self.hidden(x))

    def hidden(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_ff"]:
        """Return the hidden layer, after the activation."""
        return ACTIVATIONS[self.activation](self.w1(x))
