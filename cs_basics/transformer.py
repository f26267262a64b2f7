"""The Transformer block, pre-norm and otherwise, and the language model made of it.

Tested by `make test ARGS="-k transformer"`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from cs_basics.attention import CausalSelfAttention, KVCache, MergedCausalSelfAttention
from cs_basics.fast.rms_norm import make_norm
from cs_basics.layers import Embedding, Linear, MergedSwiGLU, SiLUFeedForward, SwiGLU
from cs_basics.norms import RMSNorm
from cs_basics.rope import RotaryPositionalEmbedding
from cs_basics.run.config import LLAMA, Architecture, resolve_num_kv_heads


class TransformerBlock(nn.Module):
    """Add to the residual stream what attention and then the feed-forward part make of it.

    Pre-norm: each part reads a normalised copy, the stream itself is never normalised, so that
    gradients reach the first block unchanged (Xiong et al. 2020, https://arxiv.org/abs/2002.04745).

    Args:
        d_model: Size of the residual stream.
        num_heads: Attention heads, a divisor of d_model.
        d_ff: Hidden size of the feed-forward part.
        rope: Rotary embedding, shared by all blocks; None for no positions.
        device: Where the weights live.
        dtype: Float type of the weights.
        architecture: Which norm, attention and feed-forward part.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        rope: RotaryPositionalEmbedding | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        architecture: Architecture = LLAMA,
    ) -> None:
        super().__init__()
        is_merged, qk_norm = architecture.merge_projections, architecture.qk_norm
        attention = MergedCausalSelfAttention if is_merged else CausalSelfAttention
        swiglu = MergedSwiGLU if is_merged else SwiGLU
        feed_forward = swiglu if architecture.ffn == "swiglu" else SiLUFeedForward
        self.ln1 = _block_norm(architecture, d_model, device, dtype)
        self.attn = attention(
            d_model,
            num_heads,
            rope,
            device,
            dtype,
            qk_norm=qk_norm,
            is_tiled=architecture.tile_attention,
            num_kv_heads=architecture.num_kv_heads,
        )
        self.ln2 = _block_norm(architecture, d_model, device, dtype)
        self.ffn = feed_forward(d_model, d_ff, device, dtype)

    def forward(
        self,
        x: Float[Tensor, "... seq d_model"],
        positions: Int[Tensor, "... seq"] | None = None,
        cache: KVCache | None = None,
    ) -> Float[Tensor, "... seq d_model"]:
        """Return the new residual stream, same shape as x."""
        x = x + self.attn(self.ln1(x), positions, cache)
        return x + self.ffn(self.ln2(x))


class PostNormBlock(TransformerBlock):
    """The block of the first Transformer: add, then normalise the sum.

    Vaswani et al. 2017, sec. 3.1 (https://arxiv.org/abs/1706.03762). Every norm lies on the way
    from the last block to the first, and scales the gradient that passes. Arguments as above.
    """

    def forward(
        self,
        x: Float[Tensor, "... seq d_model"],
        positions: Int[Tensor, "... seq"] | None = None,
        cache: KVCache | None = None,
    ) -> Float[Tensor, "... seq d_model"]:
        """Return the normalised new residual stream, same shape as x."""
        x = self.ln1(x + self.attn(x, positions, cache))
        return self.ln2(x + self.ffn(x))


class SandwichBlock(TransformerBlock):
    """Pre-norm with a second norm after each part, before it is added.

    Ding et al. 2021, sec. 2.4 (https://arxiv.org/abs/2105.13290): what a part adds cannot grow
    beyond its gain. Arguments as above.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        rope: RotaryPositionalEmbedding | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        architecture: Architecture = LLAMA,
    ) -> None:
        super().__init__(d_model, num_heads, d_ff, rope, device, dtype, architecture)
        self.ln1_after = _block_norm(architecture, d_model, device, dtype)
        self.ln2_after = _block_norm(architecture, d_model, device, dtype)

    def forward(
        self,
        x: Float[Tensor, "... seq d_model"],
        positions: Int[Tensor, "... seq"] | None = None,
        cache: KVCache | None = None,
    ) -> Float[Tensor, "... seq d_model"]:
        """Return the new residual stream, same shape as x."""
        x = x + self.ln1_after(self.attn(self.ln1(x), positions, cache))
        return x + self.ln2_after(self.ffn(self.ln2(x)))


class FusedPreNormBlock(TransformerBlock):
    """The pre-norm block of inference engines: the next norm does the addition.

    What the last part made and the stream it belongs to travel side by side, so that one pass over
    memory can add them and normalise the sum. Same weights and, up to rounding, same results as
    TransformerBlock. Arguments as there.
    """

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]  two tensors for one
        self,
        x: Float[Tensor, "... seq d_model"],
        residual: Float[Tensor, "... seq d_model"] | None = None,
        positions: Int[Tensor, "... seq"] | None = None,
        cache: KVCache | None = None,
    ) -> tuple[Float[Tensor, "... seq d_model"], Float[Tensor, "... seq d_model"]]:
        """Return what is still to be added to the stream, and the stream.

        Args:
            x: What the block before has left to add; the embeddings, in the first block.
            residual: The stream without it; None in the first block.
            positions: As in TransformerBlock.
            cache: As in TransformerBlock.
        """
        if residual is None:
            x, residual = self.ln1(x), x
        else:
            x, residual = _add_and_normalise(self.ln1, x, residual)
        x = self.attn(x, positions, cache)
        x, residual = _add_and_normalise(self.ln2, x, residual)
        return self.ffn(x), residual


def _add_and_normalise(
    norm: nn.Module, x: Float[Tensor, "..."], residual: Float[Tensor, "..."]
) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."]]:
    assert isinstance(norm, RMSNorm)  # Architecture sees to it.
    return norm.add_rms_norm(x, residual)


BLOCKS: dict[str, type[TransformerBlock]] = {
    "pre": TransformerBlock,
    "post": PostNormBlock,
    "sandwich": SandwichBlock,
    "none": TransformerBlock,
}


def _block_norm(
    architecture: Architecture,
    d_model: int,
    device: torch.device | str | None,
    dtype: torch.dtype | None,
) -> nn.Module:
    """Return the norm of the architecture; where it has none, one that returns its input."""
    if architecture.placement == "none":
        return nn.Sequential()
    return make_norm(
        architecture.norm,
        d_model,
        device,
        dtype,
        eps=architecture.norm_eps,
        fraction=architecture.norm_fraction,
        num_groups=architecture.norm_groups,
    )


class TransformerLM(nn.Module):
    """Predict the next token at every position.

    Embedding, pre-norm blocks, a final norm and an untied output head: the architecture of Llama
    (Touvron et al. 2023, sec. 2.2, https://arxiv.org/abs/2302.13971).

    Args:
        vocab_size: Number of token ids.
        context_length: Longest sequence that can be given.
        d_model: Size of the residual stream.
        num_layers: Number of blocks.
        num_heads: Attention heads in each, a divisor of d_model; d_model / num_heads must be even.
        d_ff: Hidden size of each feed-forward part.
        rope_theta: Base of the rotary wavelengths.
        device: Where the weights live.
        dtype: Float type of the weights.
        architecture: What else can be chosen.

    Raises:
        ValueError: The sizes do not fit together.
    """

    def __init__(
        self,
        vocab_size: int,
        context_length: int,
        d_model: int,
        num_layers: int,
        num_heads: int,
        d_ff: int,
        rope_theta: float = 10_000.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        architecture: Architecture = LLAMA,
    ) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model={d_model} is not divisible by num_heads={num_heads}")
        self.vocab_size, self.context_length = vocab_size, context_length
        self.d_head = d_model // num_heads
        self.num_kv_heads = resolve_num_kv_heads(num_heads, architecture.num_kv_heads)
        self.d_model = d_model
        rope = None
        if architecture.positions == "rope":
            rope = RotaryPositionalEmbedding(rope_theta, self.d_head, context_length, device)
        self.recomputes_blocks = False
        """Keep for the backward what enters a block, and compute anew what happens inside it
        (Chen et al. 2016, sec. 3, https://arxiv.org/abs/1604.06174). To be set from outside."""
        self.is_fused = architecture.fuse_add_norm
        block = FusedPreNormBlock if self.is_fused else BLOCKS[architecture.placement]
        self.token_embeddings = Embedding(vocab_size, d_model, device, dtype)
        self.layers = nn.ModuleList(
            block(d_model, num_heads, d_ff, rope, device, dtype, architecture)
            for _ in range(num_layers)
        )
        # After post-norm blocks the stream is normalised already.
        self.ln_final = (
            nn.Sequential()
            if architecture.placement == "post"
            else _block_norm(architecture, d_model, device, dtype)
        )
        self.lm_head = Linear(d_model, vocab_size, device, dtype)
        if architecture.tie_embeddings:
            # Press and Wolf 2017, sec. 3 (https://arxiv.org/abs/1608.05859). The table keeps the
            # small values of the head: those of an embedding would give logits of sqrt(d_model).
            self.token_embeddings.weight = self.lm_head.weight

    def forward(
        self, token_ids: Int[Tensor, "... seq"], caches: Sequence[KVCache] | None = None
    ) -> Float[Tensor, "... seq {self.vocab_size}"]:
        """Score every possible next token.

        Args:
            token_ids: Integers in [0, vocab_size), (..., seq); with caches they continue what the
                caches hold.
            caches: One per block, from `empty_caches`; extended in place.

        Returns:
            Logits, (..., seq, vocab_size); row t is the prediction of token t + 1.

        Raises:
            ValueError: The sequence is longer than context_length.
        """
        return self.lm_head(self.hidden(token_ids, caches))

    def hidden(
        self, token_ids: Int[Tensor, "... seq"], caches: Sequence[KVCache] | None = None
    ) -> Float[Tensor, "... seq {self.d_model}"]:
        """Return what the output head reads: the final norm of the residual stream.

        For whoever needs no logits, or not of every position; arguments and errors as in forward.
        """
        num_seen = 0 if caches is None else caches[0].length
        if num_seen + token_ids.shape[-1] > self.context_length:
            raise ValueError(
                f"a sequence of {num_seen + token_ids.shape[-1]} tokens is longer than "
                f"context_length={self.context_length}"
            )
        x = self.token_embeddings(token_ids)
        all_caches = [None] * len(self.layers) if caches is None else caches
        if self.is_fused:
            residual = None
            for block, cache in zip(self.layers, all_caches, strict=True):
                x, residual = self._through(block, cache, x, residual)
            assert residual is not None  # There is at least one block.
            return _add_and_normalise(self.ln_final, x, residual)[0]
        for block, cache in zip(self.layers, all_caches, strict=True):
            x = self._through(block, cache, x)
        return self.ln_final(x)

    def _through(self, block: nn.Module, cache: KVCache | None, *inputs: Tensor | None) -> Any:  # noqa: ANN401
        """Return what a block makes of its inputs; keep only these, if that is asked for."""
        if self.recomputes_blocks and cache is None and torch.is_grad_enabled():
            return checkpoint(block, *inputs, use_reentrant=False)
        return block(*inputs, cache=cache)

    def empty_caches(self, batch_size: int) -> list[KVCache]:
        """Make room for the keys and values of context_length positions in every block."""
        weight = self.token_embeddings.weight
        shape = (batch_size, self.num_kv_heads, self.context_length, self.d_head)
        return [KVCache(*shape, weight.device, weight.dtype) for _ in self.layers]
