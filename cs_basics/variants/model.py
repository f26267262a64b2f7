"""The model that a ModelConfig describes: the book's, with some parts exchanged."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from cs_basics.norms import LayerNorm, RMSNorm
from cs_basics.rope import RotaryPositionalEmbedding
from cs_basics.transformer import TransformerBlock, TransformerLM
from cs_basics.variants.attention import GroupedQueryAttention
from cs_basics.variants.blocks import PostNormBlock, SandwichBlock
from cs_basics.variants.config import ModelConfig
from cs_basics.variants.feed_forward import BiasedSwiGLU, FeedForward
from cs_basics.variants.head_bias import add_head_bias
from cs_basics.variants.norms import GemmaRMSNorm, GroupRMSNorm, LlamaRMSNorm, PartialRMSNorm
from cs_basics.variants.value_residual import add_value_residual

BLOCKS: dict[str, type[TransformerBlock]] = {
    "pre": TransformerBlock,
    "post": PostNormBlock,
    "sandwich": SandwichBlock,
    "none": TransformerBlock,
}

NORM_CLASSES: dict[str, Callable[..., nn.Module]] = {
    "rmsnorm": RMSNorm,
    "rmsnorm-llama": LlamaRMSNorm,
    "rmsnorm-gemma": GemmaRMSNorm,
    "layernorm": LayerNorm,
    "layernorm-no-bias": LayerNorm,
    "partial-rmsnorm": PartialRMSNorm,
    "group-rmsnorm": GroupRMSNorm,
}

NORMS = {
    "pre": ("ln1", "ln2"),
    "post": ("ln1", "ln2"),
    "sandwich": ("ln1", "ln1_after", "ln2", "ln2_after"),
    "none": (),
}
"""Attributes of a block that hold its norms, by placement."""


def build_model(
    config: ModelConfig,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> TransformerLM:
    """Return a freshly initialised model.

    With the defaults of ModelConfig this is the book's TransformerLM and nothing else.
    """
    # With head_dim the book's attention is replaced below. To be built at all it needs heads of an
    # even size that divides d_model: size 2.
    num_heads = config.num_heads if config.head_dim is None else config.d_model // 2
    model = TransformerLM(
        vocab_size=config.vocab_size,
        context_length=config.context_length,
        d_model=config.d_model,
        num_layers=config.num_layers,
        num_heads=num_heads,
        d_ff=config.d_ff,
        rope_theta=config.rope_theta,
        device=device,
        dtype=dtype,
    )
    # One table of angles for all blocks.
    rope = None
    if config.positions == "rope":
        sizes = (config.rope_theta, config.d_head, config.context_length)
        rope = RotaryPositionalEmbedding(*sizes, device)
    for block in model.layers:
        assert isinstance(block, TransformerBlock)
        exchange_parts(block, config, rope, device, dtype)
    if config.value_residual:
        add_value_residual(model, device, dtype)
    # After post-norm blocks the stream is normalised already; "none" has no norms.
    has_final_norm = config.placement not in ("post", "none")
    model.ln_final = make_norm(config, device, dtype) if has_final_norm else nn.Sequential()  # pyright: ignore[reportAttributeAccessIssue]
    if config.tie_embeddings:
        # Press and Wolf 2017, sec. 3 (https://arxiv.org/abs/1608.05859). The shared table has
        # the head's small initial values: an embedding's would give logits of size sqrt(d_model).
        model.token_embeddings.weight = model.lm_head.weight
    if config.head_bias:
        add_head_bias(model, device, dtype)
    return model


def exchange_parts(
    block: TransformerBlock,
    config: ModelConfig,
    rope: RotaryPositionalEmbedding | None,
    device: torch.device | str | None,
    dtype: torch.dtype | None,
) -> None:
    """Exchange the parts of a block for those that a configuration names, in place."""
    block.__class__ = BLOCKS[config.placement]
    names = NORMS[config.placement]
    for name in sorted({"ln1", "ln2", *names}):
        # An empty Sequential returns what it is given.
        norm = make_norm(config, device, dtype) if name in names else nn.Sequential()
        setattr(block, name, norm)
    has_other_heads = config.num_kv_heads is not None or config.head_dim is not None
    if has_other_heads or config.qk_norm or config.value_residual:
        block.attn = GroupedQueryAttention(
            config.d_model,
            config.num_heads,
            rope,
            device,
            dtype,
            num_kv_heads=config.num_kv_heads,
            qk_norm=config.qk_norm,
            # In a model with Llama's order of cast and gain these norms have it too, as in Qwen3.
            qk_norm_class=LlamaRMSNorm if config.norm == "rmsnorm-llama" else RMSNorm,
            d_head=config.head_dim,
            norm_eps=config.norm_eps,
        )
    block.attn.rope = rope
    sizes = (config.d_model, config.d_ff)
    if config.ffn != "swiglu":
        block.ffn = FeedForward(  # pyright: ignore[reportAttributeAccessIssue]
            *sizes, device, dtype, activation=config.ffn, bias=config.ffn_bias
        )
    elif config.ffn_bias:
        block.ffn = BiasedSwiGLU(*sizes, device, dtype)


def make_norm(
    config: ModelConfig,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> nn.Module:
    """Build the norm of the residual stream that a configuration names.

    Raises:
        ValueError: There is no such norm.
    """
    if config.norm not in NORM_CLASSES:
        raise ValueError(
            f"norm={config.norm!r} is unknown: choose one of {', '.join(NORM_CLASSES)}"
        )
    settings: dict[str, dict[str, Any]] = {
        "layernorm-no-bias": {"bias": False},
        "partial-rmsnorm": {"fraction": config.norm_fraction},
        "group-rmsnorm": {"num_groups": config.norm_groups},
    }
    kind, more = NORM_CLASSES[config.norm], settings.get(config.norm, {})
    return kind(config.d_model, config.norm_eps, device, dtype, **more)
