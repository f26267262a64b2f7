"""A norm of the outputs of the attention heads, before the output projection mixes them."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cs_basics.layers import Linear
from cs_basics.variants.config import HeadNormKind
from cs_basics.variants.norms import GatedRMSNorm, GroupRMSNorm


class HeadNorm(nn.Module):
    """Normalise the joined outputs of all heads.

    group: each head by its own root mean square (Sun et al. 2023, sec. 2.2,
    https://arxiv.org/abs/2307.08621, with RMSNorm in place of their GroupNorm and without
    their gate).
    gated: all heads together; a projection of the input of attention then decides how much of each
    coordinate passes (GatedRMSNorm).
    gated-first: the same with the gate before the norm, which is Mamba-2's order.
    none: the heads' outputs stay as they are.

    Args:
        kind: One of the four above.
        d_model: Size of the input of attention.
        num_heads: Heads of queries.
        d_head: Size of a head.
        eps: Added to the mean squares.
        device: Where the weights live.
        dtype: Float type of the weights.
    """

    def __init__(
        self,
        kind: HeadNormKind,
        d_model: int,
        num_heads: int,
        d_head: int,
        eps: float = 1e-5,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.kind: HeadNormKind = kind
        d_q = num_heads * d_head
        if kind == "group":
            self.norm = GroupRMSNorm(d_q, eps, device, dtype, num_groups=num_heads)
        elif kind != "none":
            self.norm = GatedRMSNorm(d_q, eps, device, dtype, gate_first=kind == "gated-first")
            self.gate_proj = Linear(d_model, d_q, device, dtype)

    def forward(
        self, heads: Float[Tensor, "... seq d_q"], x: Float[Tensor, "... seq d_model"]
    ) -> Float[Tensor, "... seq d_q"]:
        """Return the normalised outputs of the heads, same shape.

        Args:
            heads: The outputs of all heads, side by side.
            x: The input of attention.
        """
        if self.kind == "none":
            return heads
        return self.norm(heads) if self.kind == "group" else self.norm(heads, self.gate_proj(x))

    def extra_repr(self) -> str:
        """Name the choice when the module is printed."""
        return f"kind={self.kind}"
