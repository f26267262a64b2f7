"""RMSNorm with a gate: the norm before the output projection of Mamba-2."""

import torch
from torch import nn

from cs_basics.functional import silu
from cs_basics.variants.norms import reciprocal_rms, widen
from lab.norms.shapes import Vectors


class GatedRMSNorm(nn.Module):
    """Normalise, and let a second input decide how much of each coordinate passes.

    RMSNorm(x) * SiLU(gate), or with the gate first RMSNorm(x * SiLU(gate)): the norm before the
    output projection of Mamba-2 (Dao and Gu 2024, sec. 7.1, https://arxiv.org/abs/2405.21060),
    whose code supports both orders and by default puts the gate first. All of it is computed in at
    least float32 and rounded once.

    Args:
        d_model: Size of the last axis.
        eps: Added to the mean square.
        device: Where the gain lives.
        dtype: Float type of the gain; it starts at 1.
        gate_first: Gate what goes into the norm instead of what comes out.
    """

    def __init__(
        self,
        d_model: int,
        eps: float = 1e-5,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        gate_first: bool = False,
    ) -> None:
        super().__init__()
        self.d_model, self.eps, self.gate_first = d_model, eps, gate_first
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))

    def forward(self, x: Vectors, gate: Vectors) -> Vectors:
        """Return the gated and normalised x, same shape and dtype.

        Raises:
            ValueError: x and gate differ in shape.
        """
        if gate.shape != x.shape:
            raise ValueError(f"gate of shape {tuple(gate.shape)} must be like x, {tuple(x.shape)}")
        wide, opening = widen(x), silu(widen(gate))
        if self.gate_first:
            wide = wide * opening
        result = wide * reciprocal_rms(wide, self.eps) * self.weight
        if not self.gate_first:
            result = result * opening
        return result.to(x.dtype)
