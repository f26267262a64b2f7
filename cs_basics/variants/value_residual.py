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

from cs_basics.transformer import TransformerBlock, TransformerLM
from cs_basics.variants.attention import GroupedQueryAttention

StreamAndValues = Tensor | tuple[Tensor, Tensor]
"""The residual stream alone, or the stream and the values of the first block."""


class ValueResidualBlock(TransformerBlock):
    """Pre-norm block with mixed values.

    The values of the first block travel beside the residual stream. The first block is given the
    stream alone and the last returns it alone, so that the model around the blocks is the book's.
    """

    value_scales: nn.Parameter
    """a_n and b_n, (2,); not in the first block."""
    is_last: bool

    def forward(self, stream: StreamAndValues) -> StreamAndValues:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the new residual stream, same shape, and the values of the first block."""
        x, first_values = stream if isinstance(stream, tuple) else (stream, None)
        normed = self.ln1(x)
        first_values, values = self.mix(self.attn.v_proj(normed), first_values)
        x = x + self.attn(normed, values=values)
        x = x + self.ffn(self.ln2(x))
        return x if self.is_last else (x, first_values)

    def mix(
        self,
        values: Float[Tensor, "... seq d_kv"],
        first_values: Float[Tensor, "... seq d_kv"] | None,
    ) -> tuple[Tensor, Tensor]:
        """Return the values of the first block, and the mixture that this block attends to."""
        if first_values is None:
            return values, values
        of_first, own = self.value_scales
        return first_values, of_first * first_values + own * values


def add_value_residual(
    model: TransformerLM,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> None:
    """Give every block of a pre-norm model mixed values, in place.

    Args:
        model: A model whose attention is GroupedQueryAttention, which takes values.
        device: Where the scales live.
        dtype: Float type of the scales.
    """
    for block in model.layers:
        assert isinstance(block.attn, GroupedQueryAttention)
        block.__class__ = ValueResidualBlock
        assert isinstance(block, ValueResidualBlock)
        if block is not model.layers[0]:
            block.value_scales = nn.Parameter(torch.full((2,), 0.5, device=device, dtype=dtype))
        block.is_last = block is model.layers[-1]


def stream_of(output: StreamAndValues) -> Tensor:
    """Return the residual stream of what a block is given or returns."""
    return output[0] if isinstance(output, tuple) else output
