"""The pre-norm Transformer block, and the language model made of it."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from cs_basics.attention import CausalSelfAttention
from cs_basics.layers import Embedding, Linear, SwiGLU
from cs_basics.norms import RMSNorm
from cs_basics.rope import RotaryPositionalEmbedding


class TransformerBlock(nn.Module):
    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        rope: RotaryPositionalEmbedding | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        where = {"device": device, "dtype": dtype}
        self.attn = CausalSelfAttention(d_model, num_heads, rope, **where)
        self.ln1 = RMSNorm(d_model, **where)
        self.ffn = SwiGLU(d_model, d_ff, **where)
        self.ln2 = RMSNorm(d_model, **where)

    def forward(self, x: Float[Tensor, "... seq d_model"]) -> Float[Tensor, "... seq d_model"]:
        for norm, part in ((self.ln1, self.attn), (self.ln2, self.ffn)):
            x = x + part(norm(x))
        return x


class TransformerLM(nn.Module):
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
    ) -> None:
        sizes = (vocab_size, context_length, d_model, num_layers, num_heads, d_ff)
        if min(sizes) < 1:
            raise ValueError(f"every size must be at least 1: {sizes}")
        if d_model % num_heads:
            raise ValueError(f"d_model={d_model} cannot be shared out to num_heads={num_heads}")
        super().__init__()
        where = {"device": device, "dtype": dtype}
        self.vocab_size = vocab_size
        self.context_length = context_length
        turner = RotaryPositionalEmbedding(
            rope_theta, d_model // num_heads, context_length, device=device
        )
        self.token_embeddings = Embedding(vocab_size, d_model, **where)
        self.layers = nn.Sequential(
            *[
                TransformerBlock(d_model, num_heads, d_ff, turner, **where)
                for _ in range(num_layers)
            ]
        )
        self.ln_final = RMSNorm(d_model, **where)
        self.lm_head = Linear(d_model, vocab_size, **where)

    def forward(
        self, token_ids: Int[Tensor, "... seq"]
    ) -> Float[Tensor, "... seq {self.vocab_size}"]:
        if token_ids.shape[-1] > self.context_length:
            raise ValueError(
                f"{token_ids.shape[-1]} tokens are more than context_length={self.context_length}"
            )
        stream = self.layers(self.token_embeddings(token_ids))
        return self.lm_head(self.ln_final(stream))
