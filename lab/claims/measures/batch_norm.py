"""Batch normalisation, which the others are compared with."""

import torch
from torch import Tensor, nn

MOMENTUM = 0.1
"""Share of a new batch in the running mean."""


class BatchNorm(nn.Module):
    """Normalise each coordinate over all samples and positions (Ioffe and Szegedy, alg. 1 and 2).

    While training the statistics are the batch's, and a running mean of them is kept; afterwards
    that running mean is used. (Algorithm 2 multiplies the variance by m / (m - 1) first.)

    Args:
        d_model: Size of the last axis.
        eps: Added to the variance.
    """

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(d_model))
        self.mean, self.variance = torch.zeros(d_model), torch.ones(d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised x, (..., d_model)."""
        mean, variance = self.mean, self.variance
        if self.training:
            rows = x.reshape(-1, x.shape[-1])
            mean, variance = rows.mean(0), rows.var(0, correction=0)
            self.mean = torch.lerp(self.mean, mean.detach().float(), MOMENTUM)
            self.variance = torch.lerp(self.variance, variance.detach().float(), MOMENTUM)
        return (x - mean) * torch.rsqrt(variance + self.eps) * self.weight
