"""Blocks made of given parts, with norms in three places.

Read TransformerBlock in cs_basics/transformer.py first.
"""

from jaxtyping import Float
from torch import Tensor, nn

from cs_basics.attention import CausalSelfAttention
from cs_basics.transformer import TransformerBlock


class Block(TransformerBlock):
    """The book's pre-norm block, made of given parts.

    Args:
        ln1: Norm before attention.
        attn: Attention.
        ln2: Norm before the feed-forward part.
        ffn: Feed-forward part.
    """

    def __init__(
        self, ln1: nn.Module, attn: CausalSelfAttention, ln2: nn.Module, ffn: nn.Module
    ) -> None:
        # Not the book's constructor, which makes the parts.
        super(TransformerBlock, self).__init__()
        self.ln1, self.attn, self.ln2, self.ffn = ln1, attn, ln2, ffn  # pyright: ignore[reportAttributeAccessIssue]


class PostNormBlock(Block):
    """The block of the first Transformer: add, then normalise the sum; same arguments.

    Vaswani et al. 2017, sec. 3.1 (https://arxiv.org/abs/1706.03762). Every norm lies on the
    residual path and scales the gradient on its way from the last block to the first.
    """

    def forward(self, x: Float[Tensor, "... seq d_model"]) -> Float[Tensor, "... seq d_model"]:
        """Return the normalised new residual stream, same shape as x."""
        x = self.ln1(x + self.attn(x))
        return self.ln2(x + self.ffn(x))


class SandwichBlock(Block):
    """Pre-norm with a second norm after each part, before its output is added.

    Ding et al. 2021, sec. 2.4 (https://arxiv.org/abs/2105.13290): what a part adds cannot grow
    beyond the gain of that norm.

    Args:
        ln1: Norm before attention.
        attn: Attention.
        ln2: Norm before the feed-forward part.
        ffn: Feed-forward part.
        ln1_after: Norm after attention.
        ln2_after: Norm after the feed-forward part.
    """

    def __init__(
        self,
        ln1: nn.Module,
        attn: CausalSelfAttention,
        ln2: nn.Module,
        ffn: nn.Module,
        ln1_after: nn.Module,
        ln2_after: nn.Module,
    ) -> None:
        super().__init__(ln1, attn, ln2, ffn)
        self.ln1_after, self.ln2_after = ln1_after, ln2_after

    def forward(self, x: Float[Tensor, "... seq d_model"]) -> Float[Tensor, "... seq d_model"]:
        """Return the new residual stream, same shape as x."""
        x = x + self.ln1_after(self.attn(self.ln1(x)))
        return x + self.ln2_after(self.ffn(self.ln2(x)))
