"""A bias of the output head, which starts at what is known before training: the tokens' shares.

Meister et al. 2023 (https://arxiv.org/abs/2212.09686): with the logarithm of each token's share of
the text as bias, the first predictions are close to those shares, and few updates are spent on
learning which tokens are frequent.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from cs_basics.layers import Linear

CHUNK = 1 << 24
"""Tokens counted at a time: a token file may be larger than the memory."""


class BiasedLinear(Linear):
    """Linear with a bias, which starts at 0; same arguments."""

    def __init__(
        self,
        d_in: int,
        d_out: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(d_in, d_out, device, dtype)
        self.bias = nn.Parameter(torch.zeros(d_out, device=device, dtype=dtype))

    def forward(self, x: Float[Tensor, "... {self.d_in}"]) -> Float[Tensor, "... {self.d_out}"]:
        """Return x W^T + b, in the dtype of the product."""
        product = super().forward(x)
        return product + self.bias.to(product.dtype)


def set_head_bias(model: nn.Module, tokens: np.ndarray) -> None:
    """Set the bias of the output head to the logarithm of each token's share, in place.

    Args:
        model: A model; without such a bias it stays as it is.
        tokens: Token ids of the training text, (num_tokens).
    """
    if biases := head_biases(model):
        shares = log_shares(tokens, len(biases[0]))
        for bias in biases:
            bias.data.copy_(shares)


def head_biases(model: nn.Module) -> list[nn.Parameter]:
    """Return the bias of the output head, if there is one."""
    head = model.get_submodule("lm_head")
    return [head.bias] if isinstance(head, BiasedLinear) else []


def log_shares(tokens: np.ndarray, vocab_size: int) -> Float[Tensor, " vocab_size"]:
    """Return the logarithm of each token's share, each counted once more than it occurs."""
    counts = np.ones(vocab_size)
    for start in range(0, len(tokens), CHUNK):
        counts += np.bincount(tokens[start : start + CHUNK], minlength=vocab_size)
    return torch.from_numpy(np.log(counts / counts.sum())).float()
