"""Grouped-query attention, and norms inside it. Read cs_basics/attention.py first."""

import torch
from einops import rearrange, repeat
from jaxtyping import Float, Int
from torch import Tensor, nn

from cs_basics.attention import CausalSelfAttention
from cs_basics.functional import scaled_dot_product_attention
from cs_basics.layers import Linear
from cs_basics.norms import RMSNorm
from cs_basics.rope import RotaryPositionalEmbedding


class GroupedQueryAttention(CausalSelfAttention):
    """Causal self-attention with fewer heads of keys and values than of queries.

    Each head of keys and values serves several neighbouring heads of queries (Ainslie et al. 2023,
    sec. 2.2, https://arxiv.org/abs/2305.13245): the KV cache and the weights shrink, attention's
    products stay the same.

    Args:
        d_model: Size of the last axis of input and output.
        num_heads: Heads of queries; without d_head a divisor of d_model.
        rope: Rotates queries and keys by their positions; None for no positions.
        device: Where the weights live.
        dtype: Float type of the weights.
        num_kv_heads: Heads of keys and values, a divisor of num_heads; None: num_heads.
        qk_norm: RMSNorm over every head of the queries and keys before the rotation, so that no
            score exceeds sqrt(d_head) times the product of the gains (Henry et al. 2020, sec. 2.3,
            https://arxiv.org/abs/2010.04245, with RMSNorm in place of their l2 norm).
        qk_norm_class: RMSNorm or LlamaRMSNorm, which differ in the order of cast and gain.
        d_head: Size of a head; None: d_model / num_heads.
        norm_eps: Added to the mean squares by qk_norm.

    Raises:
        ValueError: d_model (without d_head) is not divisible by num_heads, or num_heads not by
            num_kv_heads.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        rope: RotaryPositionalEmbedding | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        num_kv_heads: int | None = None,
        qk_norm: bool = False,
        qk_norm_class: type[RMSNorm] = RMSNorm,
        d_head: int | None = None,
        norm_eps: float = 1e-5,
    ) -> None:
        # Not the book's constructor, which knows neither d_head nor num_kv_heads.
        super(CausalSelfAttention, self).__init__()
        if d_head is None and d_model % num_heads:
            raise ValueError(f"d_model={d_model} is not divisible by num_heads={num_heads}")
        self.num_heads, self.rope = num_heads, rope
        self.d_head = d_model // num_heads if d_head is None else d_head
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if self.num_kv_heads < 1 or num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_kv_heads={num_kv_heads} must be a divisor of num_heads={num_heads}"
            )
        d_q, d_kv = num_heads * self.d_head, self.num_kv_heads * self.d_head
        self.q_proj = Linear(d_model, d_q, device, dtype)
        self.k_proj = Linear(d_model, d_kv, device, dtype)
        self.v_proj = Linear(d_model, d_kv, device, dtype)
        self.output_proj = Linear(d_q, d_model, device, dtype)
        self.q_norm, self.k_norm = (
            # An empty Sequential returns what it is given.
            qk_norm_class(self.d_head, norm_eps, device, dtype) if qk_norm else nn.Sequential()
            for _ in range(2)
        )

    def forward(
        self,
        x: Float[Tensor, "... seq d_model"],
        positions: Int[Tensor, "... seq"] | None = None,
        values: Float[Tensor, "... seq d_kv"] | None = None,
    ) -> Float[Tensor, "... seq d_model"]:
        """Attend.

        Args:
            x: As in CausalSelfAttention.
            positions: As in CausalSelfAttention.
            values: The values of all heads, side by side; None: those that v_proj makes of x.

        Returns:
            Same shape as x.
        """
        parts = (self.q_proj(x), self.k_proj(x), self.v_proj(x) if values is None else values)
        q, k, v = (
            rearrange(part, "... seq (heads d) -> ... heads seq d", d=self.d_head) for part in parts
        )
        q, k = self.q_norm(q), self.k_norm(k)
        indices = torch.arange(x.shape[-2], device=x.device)
        if self.rope is not None:
            positions = indices if positions is None else positions.unsqueeze(-2)
            q, k = self.rope(q, positions), self.rope(k, positions)
        # Heads of queries that share keys and values are neighbours.
        group = self.num_heads // self.num_kv_heads
        k, v = (
            repeat(part, "... heads seq d -> ... (heads group) seq d", group=group)
            for part in (k, v)
        )
        is_visible = indices <= indices.unsqueeze(-1)
        attended = scaled_dot_product_attention(q, k, v, is_visible)
        return self.output_proj(rearrange(attended, "... heads seq d -> ... seq (heads d)"))
