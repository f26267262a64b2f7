"""The Transformer block, and the model made of it. Tested by `make test ARGS="-k transformer"`."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from cs_basics.attention import CausalSelfAttention
from cs_basics.layers import Embedding, Linear, SwiGLU
from cs_basics.norms import RMSNorm
from cs_basics.rope import RotaryPositionalEmbedding


class TransformerBlock(nn.Module):
    """Add the output of attention to the residual stream, then that of the feed-forward part.

    The residual stream is one vector per position, to which every block adds. Each part reads
    a normalised copy of it (pre-norm), whereas Vaswani et al. 2017 normalise the sum. The stream
    itself is never normalised, so that gradients have a straight path to the first block (Xiong et
    al. 2020, https://arxiv.org/abs/2002.04745). The block's state dict has `ln1`, `attn`, `ln2` and
    `ffn`; "ln" is short for layer norm, whose place RMSNorm takes.

    Args:
        d_model: Size of the residual stream.
        num_heads: Attention heads, a divisor of d_model.
        d_ff: Hidden size of the feed-forward part.
        rope: Rotary embedding, shared by all blocks; None for no positions.
    """

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
        self.ln1 = RMSNorm(d_model, 1e-5, device, dtype)
        self.attn = CausalSelfAttention(d_model, num_heads, rope, device, dtype)
        self.ln2 = RMSNorm(d_model, 1e-5, device, dtype)
        self.ffn = SwiGLU(d_model, d_ff, device, dtype)

    def forward(self, x: Float[Tensor, "... seq d_model"]) -> Float[Tensor, "... seq d_model"]:
        """Return the new residual stream, same shape as x."""
        x = x + self.attn(self.ln1(x))
        return x + self.ffn(self.ln2(x))


class TransformerLM(nn.Module):
    """Predict the next token at every position.

    Embedding, pre-norm blocks, a final norm and an output layer with weights of its own (Vaswani et
    al. 2017 take those of the embedding): the architecture of Llama (Touvron et al. 2023, sec. 2.2,
    https://arxiv.org/abs/2302.13971). generate.py reads the attributes `vocab_size` and
    `context_length`. Its parts in the state dict: `token_embeddings`, `layers.0`, `layers.1`, ...,
    `ln_final`, `lm_head`.

    Args:
        vocab_size: Number of token ids.
        context_length: Longest sequence that can be given.
        d_model: Size of the residual stream.
        num_layers: Number of blocks.
        num_heads: Attention heads per block; d_model / num_heads must be an even integer.
        d_ff: Hidden size of the feed-forward parts.
        rope_theta: Base of the rotary angles, theta in rope.py.

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
    ) -> None:
        super().__init__()
        self.vocab_size, self.context_length = vocab_size, context_length
        rope = RotaryPositionalEmbedding(rope_theta, d_model // num_heads, context_length, device)
        self.token_embeddings = Embedding(vocab_size, d_model, device, dtype)
        self.layers = nn.ModuleList(
            TransformerBlock(d_model, num_heads, d_ff, rope, device, dtype)
            for _ in range(num_layers)
        )
        self.ln_final = RMSNorm(d_model, 1e-5, device, dtype)
        self.lm_head = Linear(d_model, vocab_size, device, dtype)

    def forward(
        self, token_ids: Int[Tensor, "... seq"]
    ) -> Float[Tensor, "... seq {self.vocab_size}"]:
        """Score every possible next token.

        Args:
            token_ids: Integers in [0, vocab_size), (..., seq).

        Returns:
            Logits, (..., seq, vocab_size); row t is the prediction of token t + 1.

        Raises:
            ValueError: The sequence is longer than context_length.
        """
        if token_ids.shape[-1] > self.context_length:
            raise ValueError(
                f"a sequence of {token_ids.shape[-1]} tokens is longer than "
                f"context_length={self.context_length}"
            )
        x = self.token_embeddings(token_ids)
        for block in self.layers:
            x = block(x)
        return self.lm_head(self.ln_final(x))
