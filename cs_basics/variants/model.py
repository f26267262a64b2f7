"""Transformer: the language model that a ModelConfig describes."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from cs_basics.attention import CausalSelfAttention
from cs_basics.layers import Embedding, Linear, SwiGLU
from cs_basics.norms import RMSNorm
from cs_basics.rope import RotaryPositionalEmbedding
from cs_basics.settings.model import NUM_GROUPS, ModelConfig, require_default
from cs_basics.transformer import TransformerBlock, TransformerLM
from cs_basics.variants.attention import GroupedQueryAttention
from cs_basics.variants.blocks import Block, PostNormBlock, SandwichBlock
from cs_basics.variants.feed_forward import ACTIVATIONS, FeedForward
from cs_basics.variants.head_bias import BiasedLinear
from cs_basics.variants.norms import (
    GemmaRMSNorm,
    GroupRMSNorm,
    LayerNorm,
    LlamaRMSNorm,
    PartialRMSNorm,
)
from cs_basics.variants.value_residual import ValueResidualBlock

NORMS: dict[str, Callable[..., nn.Module]] = {
    "rmsnorm": RMSNorm,
    "rmsnorm-llama": LlamaRMSNorm,
    "rmsnorm-gemma": GemmaRMSNorm,
    "layernorm": LayerNorm,
    "layernorm-no-bias": partial(LayerNorm, bias=False),
    "partial-rmsnorm": PartialRMSNorm,
    "group-rmsnorm": partial(GroupRMSNorm, num_groups=NUM_GROUPS),
}
FEED_FORWARD: dict[str, Callable[..., nn.Module]] = {
    "swiglu": SwiGLU,
    **{name: partial(FeedForward, activation=name) for name in ACTIVATIONS},
}
BLOCKS: dict[str, Callable[..., TransformerBlock]] = {
    "pre": Block,
    "post": PostNormBlock,
    "sandwich": SandwichBlock,
    "none": Block,
}


class Transformer(TransformerLM):
    """The language model that a ModelConfig describes.

    With the defaults of ModelConfig it is the book's: the same parts, the same initial weights and
    the same state dict. Whatever the choices, its forward pass is the book's.

    Args:
        config: The sizes and the choices.
        device: Where the weights live.
        dtype: Float type of the weights.
    """

    def __init__(
        self,
        config: ModelConfig,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        # Not the book's constructor, which knows one kind of each part.
        super(TransformerLM, self).__init__()
        self.config = config
        self.vocab_size, self.context_length = config.vocab_size, config.context_length
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        # One instance serves all blocks.
        rope = None
        if config.positions == "rope":
            rope = self.kind(RotaryPositionalEmbedding)(
                config.rope_theta, config.d_head, config.context_length, device
            )
        self.token_embeddings = self.kind(Embedding)(config.vocab_size, config.d_model, **where)
        self.layers = nn.ModuleList(
            self.make_block(number, rope, where) for number in range(config.num_layers)
        )
        # After post-norm blocks the stream is normalised already; "none" has no norms.
        has_final_norm = config.placement not in ("post", "none")
        self.ln_final: Any = make_norm(config, **where) if has_final_norm else nn.Sequential()
        head = BiasedLinear if config.head_bias else Linear
        self.lm_head = head(config.d_model, config.vocab_size, **where)
        if config.tie_embeddings:
            # Press and Wolf 2017, sec. 3 (https://arxiv.org/abs/1608.05859). The shared table has
            # the head's small initial values: an embedding's would give logits of size
            # sqrt(d_model).
            self.token_embeddings.weight = self.lm_head.weight

    def kind(self, part: Any) -> Any:  # noqa: ANN401  a class
        """Return the class to build where the book has the class `part`; fast/ has twins."""
        return part

    def make_block(
        self, number: int, rope: RotaryPositionalEmbedding | None, where: dict[str, Any]
    ) -> TransformerBlock:
        """Build a block.

        Args:
            number: Which block it is, from 0.
            rope: The rotary embedding of all blocks; None for no positions.
            where: Device and dtype.
        """
        config = self.config
        parts: dict[str, Any] = {
            "attn": self.make_attention(rope, where),
            "ffn": self.kind(FEED_FORWARD[config.ffn])(config.d_model, config.d_ff, **where),
        }
        names = ["ln1", "ln2"]
        if config.placement == "sandwich":
            names += ["ln1_after", "ln2_after"]
        for name in names:
            # An empty Sequential returns what it is given.
            is_norm = config.placement != "none"
            parts[name] = make_norm(config, **where) if is_norm else nn.Sequential()
        if config.value_residual:
            is_first, is_last = number == 0, number == config.num_layers - 1
            return ValueResidualBlock(**parts, is_first=is_first, is_last=is_last, **where)
        return BLOCKS[config.placement](**parts)

    def make_attention(
        self, rope: RotaryPositionalEmbedding | None, where: dict[str, Any]
    ) -> CausalSelfAttention:
        """Build the attention of a block; arguments as in `make_block`."""
        config = self.config
        has_other_heads = config.num_kv_heads is not None or config.head_dim is not None
        if not (has_other_heads or config.qk_norm or config.value_residual):
            kind = self.kind(CausalSelfAttention)
            return kind(config.d_model, config.num_heads, rope, **where)
        return self.kind(GroupedQueryAttention)(
            config.d_model,
            config.num_heads,
            rope,
            **where,
            num_kv_heads=config.num_kv_heads,
            qk_norm=config.qk_norm,
            # In a model with Llama's order of cast and gain these norms have it too, as in Qwen3.
            qk_norm_class=LlamaRMSNorm if config.norm == "rmsnorm-llama" else RMSNorm,
            d_head=config.head_dim,
            norm_eps=config.norm_eps,
        )


def make_norm(
    config: ModelConfig,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> nn.Module:
    """Build the norm of the residual stream that a configuration names.

    Raises:
        ValueError: It has no eps, and neither have the heads, but norm_eps is set.
    """
    norm = NORMS[config.norm](config.d_model, config.norm_eps, device, dtype)
    if not (hasattr(norm, "eps") or config.qk_norm):
        require_default(config, "norm_eps", because_of="norm")
    return norm
