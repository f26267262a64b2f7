"""Causal self-attention over several heads. Tested by `make test ARGS="-k multihead"`."""

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from cs_basics.functional import scaled_dot_product_attention
from cs_basics.layers import Linear
from cs_basics.rope import RotaryPositionalEmbedding


class CausalSelfAttention(nn.Module):
    """Let every position look at itself and the ones before it, with several heads in parallel.

    Later positions are hidden, as the model is to predict the next token. Each head can look for
    something different, and `output_proj` mixes what they found. Vaswani et al. 2017, sec. 3.2.2
    (https://arxiv.org/abs/1706.03762), without biases. The heads' query matrices are stacked into
    one, and so are those of keys and of values: rows h * d_head to (h + 1) * d_head - 1 belong to
    head h. Its state dict has `q_proj.weight`, `k_proj.weight`, `v_proj.weight` and
    `output_proj.weight`, each (d_model, d_model).

    Args:
        d_model: Size of the last axis of input and output.
        num_heads: Number of heads, a divisor of d_model.
        rope: Rotates queries and keys by their positions. With None, the output at a position does
            not depend on the order of the vectors before it.

    Raises:
        ValueError: d_model is not divisible by num_heads.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        rope: RotaryPositionalEmbedding | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model={d_model} is not divisible by num_heads={num_heads}")
        self.num_heads, self.d_head = num_heads, d_model // num_heads
        self.q_proj = Linear(d_model, d_model, device, dtype)
        self.k_proj = Linear(d_model, d_model, device, dtype)
        self.v_proj = Linear(d_model, d_model, device, dtype)
        self.output_proj = Linear(d_model, d_model, device, dtype)
        self.rope = rope

    def forward(
        self,
        x: Float[Tensor, "... seq d_model"],
        positions: Int[Tensor, "... seq"] | None = None,
    ) -> Float[Tensor, "... seq d_model"]:
        """Attend.

        Args:
            x: One vector per position, (..., seq, d_model).
            positions: Absolute positions for the rotation, (..., seq); None means 0, 1, 2, ... A
                layer without rope ignores them.

        Returns:
            Same shape as x.
        """
        q, k, v = (
            rearrange(projection(x), "... seq (heads d) -> ... heads seq d", d=self.d_head)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        seq = x.shape[-2]
        if self.rope is not None:
            if positions is None:
                positions = torch.arange(seq, device=x.device)
            else:
                positions = rearrange(positions, "... seq -> ... 1 seq")  # the same for each head
            q, k = self.rope(q, positions), self.rope(k, positions)
        is_visible = torch.ones(seq, seq, dtype=torch.bool, device=x.device).tril()
        attended = scaled_dot_product_attention(q, k, v, is_visible)
        return self.output_proj(rearrange(attended, "... heads seq d -> ... seq (heads d)"))
