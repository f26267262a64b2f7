"""Value residual: the values of every later block are mixed with those of the first block.

Zhou et al. 2024, "learnable ResFormer" (https://arxiv.org/abs/2410.17897): with V_1 the values that
the first block computes from its input,

    V_n' = a_n V_1 + b_n V_n

for every later block n. The scales a_n and b_n are learned and start at 1/2. The first block reads
the embeddings themselves, so what later blocks attend to still says which token stood there.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cs_basics.variants.attention import GroupedQueryAttention
from cs_basics.variants.blocks import Block

StreamAndValues = Tensor | tuple[Tensor, Tensor]
"""The residual stream alone, or the stream and the values of the first block."""


class ValueResidualBlock(Block):
    """Pre-norm block with mixed values.

    The values of the first block travel beside the residual stream. The first block is given the
    stream alone and the last returns it alone, so that the model around the blocks is the book's.

    Args:
        ln1: Norm before attention.
        attn: Attention that takes values.
        ln2: Norm before the feed-forward part.
        ffn: Feed-forward part.
        is_first: Whether this is the first block, whose values are its own.
        is_last: Whether this is the last block.
        device: Where the scales live.
        dtype: Float type of the scales.
    """

    def __init__(
        self,
        ln1: nn.Module,
        attn: GroupedQueryAttention,
        ln2: nn.Module,
        ffn: nn.Module,
        *,
        is_first: bool,
        is_last: bool,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(ln1, attn, ln2, ffn)
        self.is_last = is_last
        scales = torch.full((2,), 0.5, device=device, dtype=dtype)
        self.value_scales = None if is_first else nn.Parameter(scales)

    def forward(self, stream: StreamAndValues) -> StreamAndValues:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the new residual stream, same shape, and the values of the first block."""
        x, first_values = stream if isinstance(stream, tuple) else (stream, None)
        normed = self.ln1(x)
        first_values, values = mix(self.attn.v_proj(normed), first_values, self.value_scales)
        x = x + self.attn(normed, values=values)
        x = x + self.ffn(self.ln2(x))
        return x if self.is_last else (x, first_values)


def mix(
    values: Float[Tensor, "... seq d_kv"],
    first_values: Float[Tensor, "... seq d_kv"] | None,
    scales: Float[Tensor, " 2"] | None,
) -> tuple[Tensor, Tensor]:
    """Return the values of the first block, and the mixture that this block attends to."""
    if first_values is None or scales is None:
        return values, values
    of_first, own = scales
    return first_values, of_first * first_values + own * values
