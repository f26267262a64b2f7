"""A model with a KV cache: each new token computes one position instead of the whole context.

`KVCache` keeps the keys and values of earlier positions, so that attention needs the queries of the
new positions only. `decoding_model` returns a copy of a model for this: QKV weights, and those of
gate and up, are stacked once; all other parameters are shared. decoding.py generates with it.
"""

import copy
import itertools
from collections.abc import Sequence
from typing import TypeVar, cast

import torch
from einops import repeat
from jaxtyping import Float, Int
from torch import Tensor, nn

from cs_basics.attention import CausalSelfAttention
from cs_basics.fast.attention import (
    FlashGroupedQueryAttention,
    FlashSelfAttention,
    half_split_weights,
    has_qk_norm,
    join_heads,
    rotate,
    split_heads,
)
from cs_basics.fast.layers import FusedSwiGLU
from cs_basics.fast.transformer import FastTransformerLM
from cs_basics.functional import scaled_dot_product_attention, silu
from cs_basics.layers import Linear, SwiGLU
from cs_basics.transformer import TransformerBlock, TransformerLM
from cs_basics.variants.attention import GroupedQueryAttention
from cs_basics.variants.blocks import PostNormBlock, SandwichBlock
from cs_basics.variants.value_residual import StreamAndValues, ValueResidualBlock


class KVCache:
    """The keys and values of one attention layer, whose rows may hold texts of different lengths.

    New ones are written at given positions, and those of all positions are returned: positions that
    are not yet written come after the new token, so the causal mask hides them. The shapes are
    static, as compiled code wants them.

    Args:
        keys: Keys of all positions, (batch, heads, max_seq_len, d_head); written in place.
        values: Values of all positions, likewise.
        positions: Positions of the new tokens of each row, (batch, new).
    """

    def __init__(
        self,
        keys: Float[Tensor, "batch heads max_seq_len d_head"],
        values: Float[Tensor, "batch heads max_seq_len d_head"],
        positions: Int[Tensor, "batch new"],
    ) -> None:
        self.keys, self.values, self.positions = keys, values, positions

    def append(
        self,
        k: Float[Tensor, "batch heads new d_head"],
        v: Float[Tensor, "batch heads new d_head"],
    ) -> tuple[Tensor, Tensor]:
        """Write new keys and values at their positions and return those of all positions."""
        rows = torch.arange(k.shape[0], device=k.device).unsqueeze(1)
        self.keys[rows, :, self.positions] = k.transpose(1, 2).to(self.keys.dtype)
        self.values[rows, :, self.positions] = v.transpose(1, 2).to(self.values.dtype)
        return self.keys, self.values


class DecodingAttention(nn.Module):
    """Causal self-attention of new positions to themselves and to the positions in a cache.

    Args:
        attention: The attention whose weights are used; without QK-norm, the rows of queries and
            keys are stored in half-split order (fast/attention.py).
        is_given_values: Whether the block calls v_proj itself and gives `forward` the values;
            `qkv_proj` then holds queries and keys only.
    """

    def __init__(self, attention: CausalSelfAttention, *, is_given_values: bool = False) -> None:
        super().__init__()
        self.num_heads, self.d_head = attention.num_heads, attention.d_head
        self.num_kv_heads: int = getattr(attention, "num_kv_heads", attention.num_heads)
        self.has_qk_norm = has_qk_norm(attention)
        if self.has_qk_norm:
            assert isinstance(attention, GroupedQueryAttention)
            self.q_norm, self.k_norm = attention.q_norm, attention.k_norm
            projections = (attention.q_proj, attention.k_proj, attention.v_proj)
            weights: list[Tensor] = [projection.weight for projection in projections]
        else:
            weights = half_split_weights(attention, self.num_kv_heads)
        if is_given_values:
            self.v_proj = attention.v_proj
            weights.pop()
        self.qkv_proj = linear_of(torch.cat(weights))
        self.output_proj, self.rope = attention.output_proj, attention.rope

    def forward(
        self,
        x: Float[Tensor, "batch new d_model"],
        cache: KVCache,
        values: Float[Tensor, "batch new d_kv"] | None = None,
    ) -> Float[Tensor, "batch new d_model"]:
        """Attend; the cache is extended in place."""
        rows = cache.positions.unsqueeze(1)  # for all heads
        qkv = self.qkv_proj(x)
        if values is not None:
            qkv = torch.cat([qkv, values], dim=-1)
        q, k, v = split_heads(qkv, self.num_heads, self.num_kv_heads)
        if self.has_qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.rope is not None and self.has_qk_norm:
            q, k = self.rope(q, rows), self.rope(k, rows)
        elif self.rope is not None:
            cos, sin = self.rope.cos[rows], self.rope.sin[rows]
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = cache.append(k, v)
        group = self.num_heads // self.num_kv_heads
        if group > 1:
            k, v = (
                repeat(part, "batch heads seq d -> batch (heads group) seq d", group=group)
                for part in (k, v)
            )
        columns = torch.arange(k.shape[-2], device=x.device)
        attended = scaled_dot_product_attention(q, k, v, columns <= rows.unsqueeze(-1))
        return self.output_proj(join_heads(attended))


class DecodingSwiGLU(nn.Module):
    """SwiGLU with stacked weights of gate and up.

    Args:
        swiglu: The SwiGLU whose weights are used.
    """

    def __init__(self, swiglu: SwiGLU) -> None:
        super().__init__()
        self.w13 = linear_of(torch.cat([swiglu.w1.weight, swiglu.w3.weight]))
        self.w2 = swiglu.w2

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Return the transformed x, same shape."""
        gate, up = self.w13(x).chunk(2, dim=-1)
        return self.w2(silu(gate) * up)


class DecodingPreNorm(TransformerBlock):
    """TransformerBlock with a cache."""

    def forward(self, x: Tensor, cache: KVCache) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the new residual stream, same shape as x."""
        x = x + self.attn(self.ln1(x), cache)
        return x + self.ffn(self.ln2(x))


class DecodingPostNorm(PostNormBlock):
    """PostNormBlock with a cache."""

    def forward(self, x: Tensor, cache: KVCache) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the normalised new residual stream, same shape as x."""
        x = self.ln1(x + self.attn(x, cache))
        return self.ln2(x + self.ffn(x))


class DecodingSandwich(SandwichBlock):
    """SandwichBlock with a cache."""

    def forward(self, x: Tensor, cache: KVCache) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the new residual stream, same shape as x."""
        x = x + self.ln1_after(self.attn(self.ln1(x), cache))
        return x + self.ln2_after(self.ffn(self.ln2(x)))


class DecodingValueResidual(ValueResidualBlock):
    """ValueResidualBlock with a cache, which keeps the mixed values."""

    def forward(self, stream: StreamAndValues, cache: KVCache) -> StreamAndValues:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the new residual stream, and the values of the first block."""
        x, first_values = stream if isinstance(stream, tuple) else (stream, None)
        normed = self.ln1(x)
        first_values, values = self.mix(self.attn.v_proj(normed), first_values)
        x = x + self.attn(normed, cache, values)
        x = x + self.ffn(self.ln2(x))
        return x if self.is_last else (x, first_values)


BLOCKS: dict[type[nn.Module], type[nn.Module]] = {
    TransformerBlock: DecodingPreNorm,
    PostNormBlock: DecodingPostNorm,
    SandwichBlock: DecodingSandwich,
    ValueResidualBlock: DecodingValueResidual,
}
ATTENTIONS = {
    CausalSelfAttention, FlashSelfAttention, GroupedQueryAttention, FlashGroupedQueryAttention,
}  # fmt: skip
MODELS = {TransformerLM, FastTransformerLM}
Model = TypeVar("Model", bound=nn.Module)


class DecodingLM(TransformerLM):
    """TransformerLM with a cache for each block; made by `decoding_model`."""

    def hidden(
        self, token_ids: Int[Tensor, "batch new"], caches: Sequence[KVCache]
    ) -> Float[Tensor, "batch new d_model"]:
        """Return the input of the output head.

        Args:
            token_ids: The tokens that follow those in the caches.
            caches: One per block, with the positions of these tokens; written in place.
        """
        x = self.token_embeddings(token_ids)
        for block, cache in zip(self.layers, caches, strict=True):
            x = block(x, cache)
        return self.ln_final(x)

    def empty_caches(self, batch_size: int, num_places: int) -> list[tuple[Tensor, Tensor]]:
        """Return the keys and values of every block, all 0, for num_places positions."""
        weight = self.token_embeddings.weight
        caches: list[tuple[Tensor, Tensor]] = []
        for block in self.layers:
            attention = cast(DecodingAttention, block.attn)
            shape = (batch_size, attention.num_kv_heads, num_places, attention.d_head)
            caches.append((weight.new_zeros(shape), weight.new_zeros(shape)))
        return caches


def decoding_model(model: nn.Module) -> DecodingLM | None:
    """Return a copy of a model for decoding; None for a model of other classes."""
    if type(model) not in MODELS:
        return None
    blocks = list(model.layers)  # pyright: ignore[reportArgumentType]
    if any(block_kind(b) not in BLOCKS or type(b.attn) not in ATTENTIONS for b in blocks):
        return None
    copied = copy_sharing_tensors(model)
    copied.__class__ = DecodingLM
    assert isinstance(copied, DecodingLM)
    for block in copied.layers:
        block.__class__ = BLOCKS[block_kind(block)]
        attention = cast(CausalSelfAttention, block.attn)
        is_given_values = isinstance(block, DecodingValueResidual)
        block.attn = DecodingAttention(attention, is_given_values=is_given_values)
        if type(block.ffn) in (SwiGLU, FusedSwiGLU):
            block.ffn = DecodingSwiGLU(cast(SwiGLU, block.ffn))
    return copied


def copy_sharing_tensors(model: Model) -> Model:
    """Return a copy of a model that shares its parameters and buffers."""
    tensors = itertools.chain(model.parameters(), model.buffers())
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})


def block_kind(block: nn.Module) -> type[nn.Module]:
    """Return the class of a block, or of the block inside activation checkpointing."""
    return getattr(type(block), "kind", type(block))


def linear_of(weight: Float[Tensor, "d_out d_in"]) -> Linear:
    """Return a Linear with a given weight."""
    # On the device "meta" the initialisation, which is replaced at once, costs nothing.
    linear = Linear(weight.shape[1], weight.shape[0], "meta")
    linear.weight = nn.Parameter(weight.detach())
    return linear
