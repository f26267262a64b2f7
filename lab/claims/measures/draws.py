"""Random inputs of measurements, decided by a seed alone, and the size of what comes out."""

import torch
from torch import Tensor


def normal(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return numbers from N(0, 1)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).to(dtype)


def largest(difference: Tensor) -> float:
    """Return the largest absolute value."""
    return difference.abs().max().item()


def rms(x: Tensor) -> float:
    """Return the root mean square."""
    return x.square().mean().sqrt().item()
