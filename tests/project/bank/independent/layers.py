"""The layers with weights that treat every position alike: Linear, Embedding, SwiGLU."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from cs_basics.functional import silu


class Linear(nn.Module):
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
        return x.matmul(self.weight.t())


class Embedding(nn.Module):
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
        flat = token_ids.reshape(-1).long()
        return self.weight.index_select(0, flat).reshape(*token_ids.shape, self.weight.shape[1])


class SwiGLU(nn.Module):
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
