"""A model with a KV cache: each new token computes one position instead of the whole context.

`KVCache` keeps the keys and values of earlier positions, so that attention needs the queries of the
new positions only. `DecodingLM` is built from a model: QKV weights, and those of gate and up, are
stacked once; all other parameters are shared. decoding.py generates with it.
"""

from collections.abc import Sequence
from typing import Any

import torch
from einops import repeat
from jaxtyping import Float, Int
from torch import Tensor, nn

from cs_basics.attention import CausalSelfAttention
from cs_basics.fast.attention import (
    FusedAttention,
    half_split_weights,
    has_qk_norm,
    join_heads,
    rotate,
    split_heads,
)
from cs_basics.fast.layers import FusedSwiGLU
from cs_basics.fast.rope import TabledRoPE, tabled
from cs_basics.fast.transformer import FastTransformer
from cs_basics.functional import scaled_dot_product_attention, silu
from cs_basics.layers import Linear, SwiGLU
from cs_basics.transformer import TransformerBlock, TransformerLM
from cs_basics.variants.attention import GroupedQueryAttention
from cs_basics.variants.blocks import Block, PostNormBlock, SandwichBlock
from cs_basics.variants.feed_forward import ACTIVATIONS, FeedForward
from cs_basics.variants.head_bias import BiasedLinear
from cs_basics.variants.model import Transformer
from cs_basics.variants.value_residual import ValueResidualBlock, mix

MODELS = {TransformerLM, Transformer, FastTransformer}
BLOCKS = {TransformerBlock, Block, PostNormBlock, SandwichBlock, ValueResidualBlock}
ATTENTIONS = {CausalSelfAttention, GroupedQueryAttention, FusedAttention}
FEED_FORWARD = {SwiGLU, FusedSwiGLU, FeedForward}
LINEARS = {Linear, BiasedLinear}


class KVCache:
    """The keys and values of one attention layer, whose rows may hold texts of different lengths.

    New ones are written at given positions, and those of all positions are returned: positions that
    are not yet written come after the new token, so the causal mask hides them.

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


class Product(nn.Module):
    """x W^T, plus a bias if there is one, with given weights.

    Args:
        weight: The matrix; several are stacked.
        bias: The bias, in the order of the rows.
    """

    def __init__(self, *weight: Float[Tensor, "_ d_in"], bias: Tensor | None = None) -> None:
        super().__init__()
        whole = weight[0] if len(weight) == 1 else torch.cat(weight)
        self.weight = nn.Parameter(whole.detach())
        self.bias = None if bias is None else nn.Parameter(bias.detach())

    def forward(self, x: Float[Tensor, "... d_in"]) -> Float[Tensor, "... d_out"]:
        """Return the product."""
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias.to(product.dtype)


class DecodingAttention(nn.Module):
    """Causal self-attention of new positions to themselves and to the positions in a cache.

    Args:
        attention: The attention whose weights are used; without QK-norm, the rows of queries and
            keys are stored in half-split order (fast/attention.py).
        rope: The attention's rotation, with tables.
        is_given_values: Whether the block calls v_proj itself and gives `forward` the values;
            `qkv_proj` then holds queries and keys only.
    """

    def __init__(
        self,
        attention: CausalSelfAttention,
        rope: TabledRoPE | None,
        *,
        is_given_values: bool = False,
    ) -> None:
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
            self.v_proj = Product(weights.pop())
        self.qkv_proj = Product(*weights)
        self.output_proj = Product(attention.output_proj.weight)
        self.rope = rope

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
            cos, sin = self.rope.cos_and_sin(rows)
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


class DecodingFeedForward(nn.Module):
    """A feed-forward part; the weights of SwiGLU's gate and up are stacked.

    Args:
        ffn: The part whose weights are used.
    """

    def __init__(self, ffn: SwiGLU | FeedForward) -> None:
        super().__init__()
        self.is_gated = isinstance(ffn, SwiGLU)
        if isinstance(ffn, SwiGLU):
            self.activation, self.w1 = silu, Product(ffn.w1.weight, ffn.w3.weight)
        else:
            self.activation, self.w1 = ACTIVATIONS[ffn.activation], Product(ffn.w1.weight)
        self.w2 = Product(ffn.w2.weight)

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Return the transformed x, same shape."""
        if not self.is_gated:
            return self.w2(self.activation(self.w1(x)))
        gate, up = self.w1(x).chunk(2, dim=-1)
        return self.w2(self.activation(gate) * up)


class DecodingBlock(nn.Module):
    """A block with a cache; where its norms stand depends on the block that it is made from.

    Args:
        block: The block whose weights are used.
        rope: The rotation of its attention, with tables.
    """

    def __init__(self, block: Any, rope: TabledRoPE | None) -> None:  # noqa: ANN401  one of BLOCKS
        super().__init__()
        self.mixes_values = isinstance(block, ValueResidualBlock)
        self.value_scales = getattr(block, "value_scales", None)
        self.attn = DecodingAttention(block.attn, rope, is_given_values=self.mixes_values)
        self.ffn = DecodingFeedForward(block.ffn)
        self.is_post = isinstance(block, PostNormBlock)
        self.ln1, self.ln2 = block.ln1, block.ln2
        self.ln1_after = getattr(block, "ln1_after", None)
        self.ln2_after = getattr(block, "ln2_after", None)

    def forward(
        self, x: Float[Tensor, "batch new d_model"], first_values: Tensor | None, cache: KVCache
    ) -> tuple[Tensor, Tensor | None]:
        """Return the new residual stream, and the values of the first block if they are mixed."""
        normed, values = x if self.is_post else self.ln1(x), None
        if self.mixes_values:
            first_values, values = mix(self.attn.v_proj(normed), first_values, self.value_scales)
        x = self.added(x, self.attn(normed, cache, values), self.ln1, self.ln1_after)
        normed = x if self.is_post else self.ln2(x)
        return self.added(x, self.ffn(normed), self.ln2, self.ln2_after), first_values

    def added(self, x: Tensor, change: Tensor, norm: nn.Module, after: nn.Module | None) -> Tensor:
        """Add what a part returned, with a norm after the part or after the sum if there is one."""
        if self.is_post:
            return norm(x + change)
        return x + (change if after is None else after(change))


class DecodingLM(nn.Module):
    """A language model with a cache for each block.

    Args:
        model: The model whose weights are used; `can_decode` tells which.
    """

    def __init__(self, model: Any) -> None:  # noqa: ANN401  one of MODELS
        super().__init__()
        self.context_length: int = model.context_length
        self.token_embeddings = model.token_embeddings
        device = model.token_embeddings.weight.device
        ropes = {block.attn.rope for block in model.layers}  # One, or one and None.
        tables = {rope: tabled(rope, device) if rope else None for rope in ropes}
        self.layers = nn.ModuleList(
            DecodingBlock(block, tables[block.attn.rope]) for block in model.layers
        )
        self.ln_final = model.ln_final
        head = model.lm_head
        self.lm_head = Product(head.weight, bias=getattr(head, "bias", None))

    def hidden(
        self, token_ids: Int[Tensor, "batch new"], caches: Sequence[KVCache]
    ) -> Float[Tensor, "batch new d_model"]:
        """Return the input of the output head.

        Args:
            token_ids: The tokens that follow those in the caches.
            caches: One per block, with the positions of these tokens; written in place.
        """
        x, first_values = self.token_embeddings(token_ids), None
        for block, cache in zip(self.layers, caches, strict=True):
            x, first_values = block(x, first_values, cache)
        return self.ln_final(x)

    def empty_caches(self, batch_size: int, num_places: int) -> list[tuple[Tensor, Tensor]]:
        """Return the keys and values of every block, all 0, for num_places positions."""
        weight = self.token_embeddings.weight
        caches: list[tuple[Tensor, Tensor]] = []
        for block in self.layers:
            attention: Any = block.attn
            shape = (batch_size, attention.num_kv_heads, num_places, attention.d_head)
            caches.append((weight.new_zeros(shape), weight.new_zeros(shape)))
        return caches


def can_decode(model: Any) -> bool:  # noqa: ANN401  any model
    """Tell whether a model has no parts but those known here: a subclass may compute otherwise."""
    return (
        type(model) in MODELS
        and all(
            type(block) in BLOCKS
            and type(block.attn) in ATTENTIONS
            and type(block.ffn) in FEED_FORWARD
            for block in model.layers
        )
        and {type(part) for part in model.modules() if isinstance(part, Linear)} <= LINEARS
    )
