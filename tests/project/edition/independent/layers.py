"""The layers with weights that treat every position alike: Linear, Embedding, SwiGLU.

Yours to write (docs/handout.md); examined by `make test ARGS="--problem NAME"`:

    linear                              Linear layer (2 points)
    embedding                           Embedding (2 points)
    positionwise_feedforward            Feed-forward network (SwiGLU) (4 points)
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from cs_basics.functional import silu


class Linear(nn.Module):
    """Multiply the last axis by a weight matrix.

    Initialised from N(0, 2 / (d_in + d_out)), truncated at three standard deviations (the variance
    of Glorot and Bengio 2010, eq. 12: activations and gradients keep their scale).

    Args:
        d_in: Size of the last axis of the input.
        d_out: Size of the last axis of the output.
        device: Where the weight lives.
        dtype: Float type of the weight.
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.weight = _fresh((d_out, d_in), math.sqrt(2 / (d_in + d_out)), device, dtype)

    def forward(self, x: Float[Tensor, "... {self.d_in}"]) -> Float[Tensor, "... {self.d_out}"]:
        """Return x W^T, (..., d_in) -> (..., d_out)."""
        return x.matmul(self.weight.t())


class Embedding(nn.Module):
    """Look up one learned vector per token id.

    Initialised from N(0, 1), truncated at 3.

    Args:
        vocab_size: Number of ids.
        d_model: Size of each vector.
        device: Where the table lives.
        dtype: Float type of the table.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.weight = _fresh((vocab_size, d_model), 1.0, device, dtype)

    def forward(self, token_ids: Int[Tensor, "..."]) -> Float[Tensor, "... {self.d_model}"]:
        """Return the vectors of the ids, (...) -> (..., d_model)."""
        flat = token_ids.reshape(-1).long()
        return self.weight.index_select(0, flat).reshape(*token_ids.shape, self.weight.shape[1])


class SwiGLU(nn.Module):
    """The feed-forward part of a block: W2 (SiLU(W1 x) * W3 x).

    W1 x decides how much of each component of W3 x passes. Shazeer 2020, eq. 6
    (https://arxiv.org/abs/2002.05202), without biases.

    Args:
        d_model: Size of the last axis of input and output.
        d_ff: Size of the hidden layer, usually about 8/3 of d_model.
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
        into, back = (d_model, d_ff), (d_ff, d_model)
        self.w1 = Linear(*into, device=device, dtype=dtype)
        self.w2 = Linear(*back, device=device, dtype=dtype)
        self.w3 = Linear(*into, device=device, dtype=dtype)

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Return the transformed x, same shape."""
        gate, content = self.w1(x), self.w3(x)
        return self.w2(silu(gate) * content)


def _fresh(
    shape: tuple[int, int],
    sigma: float,
    device: torch.device | str | None,
    dtype: torch.dtype | None,
) -> nn.Parameter:
    """Return a parameter from the normal distribution without its tails beyond three sigma."""
    values = torch.empty(shape, device=device)
    nn.init.trunc_normal_(values, 0.0, sigma, -3 * sigma, 3 * sigma)
    return nn.Parameter(values.to(dtype or values.dtype))
