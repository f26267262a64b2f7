"""Layers that transform each position independently of the others: Linear, Embedding, SwiGLU.

The weights of Linear are stored (out, in), as for y = W x; vectors are rows here, so y = x W^T.
There are no biases. Each constructor ends with `device` and `dtype`: where the weights live, and
their float type. A state dict holds a module's weights by name; checkpoint.py saves it.
Tested by `make test ARGS="-k 'linear or embedding or swiglu'"`.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from cs_basics.functional import silu


class Linear(nn.Module):
    """Multiply the last axis by a weight matrix.

    Initialised from a normal distribution with mean 0 and variance 2 / (d_in + d_out), truncated at
    three standard deviations (Glorot and Bengio 2010, eq. 12). A variance of 1 / d_in would keep
    the scale of activations, and 1 / d_out that of gradients: this one lies between the two. Its
    state dict has `weight`, (d_out, d_in).

    Args:
        d_in: Size of the last axis of the input.
        d_out: Size of the last axis of the output.
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.d_in, self.d_out = d_in, d_out
        self.weight = nn.Parameter(torch.empty(d_out, d_in, device=device, dtype=dtype))
        std = math.sqrt(2 / (d_in + d_out))
        nn.init.trunc_normal_(self.weight, std=std, a=-3 * std, b=3 * std)

    def forward(self, x: Float[Tensor, "... {self.d_in}"]) -> Float[Tensor, "... {self.d_out}"]:
        """Return x W^T, (..., d_in) -> (..., d_out)."""
        return x @ self.weight.T


class Embedding(nn.Module):
    """Look up one learned vector per token id.

    Initialised from N(0, 1), truncated at 3. Its state dict has `weight`, (vocab_size, d_model).

    Args:
        vocab_size: Number of ids.
        d_model: Size of each vector.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.vocab_size, self.d_model = vocab_size, d_model
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model, device=device, dtype=dtype))
        nn.init.trunc_normal_(self.weight, std=1.0, a=-3.0, b=3.0)

    def forward(self, token_ids: Int[Tensor, "..."]) -> Float[Tensor, "... {self.d_model}"]:
        """Return the vectors of the ids, (...) -> (..., d_model)."""
        return self.weight[token_ids]


class SwiGLU(nn.Module):
    """The feed-forward part of a block: W2 (SiLU(W1 x) * W3 x).

    W1 x decides how much of each component of W3 x passes. Shazeer 2020, eq. 6
    (https://arxiv.org/abs/2002.05202), without biases. Its state dict has `w1.weight` and
    `w3.weight`, (d_ff, d_model), and `w2.weight`, (d_model, d_ff).

    Args:
        d_model: Size of the last axis of input and output.
        d_ff: Size of the hidden layer, usually about 8/3 of d_model: three matrices then have as
            many weights as the usual two with d_ff = 4 d_model.
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
        self.w3 = Linear(d_model, d_ff, device, dtype)

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Return the transformed x, same shape."""
        return self.w2(silu(self.w1(x)) * self.w3(x))
