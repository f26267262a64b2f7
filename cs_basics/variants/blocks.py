"""Blocks with norms in other places. Read TransformerBlock in cs_basics/transformer.py first."""

from jaxtyping import Float
from torch import Tensor, nn

from cs_basics.transformer import TransformerBlock


class PostNormBlock(TransformerBlock):
    """The block of the first Transformer: add, then normalise the sum.

    Vaswani et al. 2017, sec. 3.1 (https://arxiv.org/abs/1706.03762). Every norm lies on the
    residual path and scales the gradient on its way from the last block to the first.
    """

    def forward(self, x: Float[Tensor, "... seq d_model"]) -> Float[Tensor, "... seq d_model"]:
        """Return the normalised new residual stream, same shape as x."""
        x = self.ln1(x + self.attn(x))
        return self.ln2(x + self.ffn(x))


class SandwichBlock(TransformerBlock):
    """Pre-norm with a second norm after each part, before its output is added.

    Ding et al. 2021, sec. 2.4 (https://arxiv.org/abs/2105.13290): what a part adds cannot grow
    beyond the gain of that norm. `build_model` sets ln1_after and ln2_after.
    """

    ln1_after: nn.Module
    ln2_after: nn.Module

    def forward(self, x: Float[Tensor, "... seq d_model"]) -> Float[Tensor, "... seq d_model"]:
        """Return the new residual stream, same shape as x."""
        x = x + self.ln1_after(self.attn(self.ln1(x)))
        return x + self.ln2_after(self.ffn(self.ln2(x)))
