"""Attention with fused QKV and half-split RoPE, by kernels where there are any.

What makes it faster than cs_basics/attention.py:

- queries, keys and values come from one matrix product with the stacked weights (fused QKV);
- the rows of the query and key weights are put into an order in which the two coordinates of a
  RoPE pair lie half a head apart (half-split RoPE, the layout of Hugging Face's Llama). Each pair
  is rotated by the same angle as before, but the processor reads and writes whole vectors. The
  scores do not change, since queries and keys are reordered alike;
- in compiled code on a CPU, rotation and attention are one C++ kernel (native/attention_kernel.py);
- on a GPU, Triton kernels attend (triton_attention.py).
"""

import importlib.util
from collections.abc import Callable, Sequence

import torch
from einops import rearrange, repeat
from jaxtyping import Float, Int
from torch import Tensor

from cs_basics.attention import CausalSelfAttention
from cs_basics.fast.layers import stack
from cs_basics.fast.rope import TabledRoPE
from cs_basics.functional import scaled_dot_product_attention
from cs_basics.rope import RotaryPositionalEmbedding
from cs_basics.variants.attention import GroupedQueryAttention

# The kernels are imported where they are called: without Triton this file works too.
HAS_TRITON = importlib.util.find_spec("triton") is not None
TRITON_FROM = 256
"""Sequence length from which the kernels are faster; below, the full matrix of scores is."""
LARGEST_KERNEL_HEAD = 256  # A kernel holds the rows of its block in registers.

Kernel = Callable[..., Tensor]


class FusedAttention(GroupedQueryAttention):
    """Attention with fused QKV and half-split RoPE; same arguments.

    The twin of CausalSelfAttention, too, which has as many heads of keys and values as of queries.
    """

    kernel: Kernel | None = None
    """Operation for RoPE and attention together; set by `use_kernel` (native/) without QK-norm."""

    def forward(
        self,
        x: Float[Tensor, "... seq d_model"],
        positions: Int[Tensor, "... seq"] | None = None,
        values: Float[Tensor, "... seq d_kv"] | None = None,
    ) -> Float[Tensor, "... seq d_model"]:
        """Attend; arguments and result as in GroupedQueryAttention."""
        if has_qk_norm(self):
            # The gains of QK-norm are in the book's order, so queries and keys must be, too.
            weights = [self.q_proj.weight, self.k_proj.weight, self.v_proj.weight]
            qkv = fused_qkv(x, weights, values)
            q, k, v = split_heads(qkv, self.num_heads, self.num_kv_heads)
            q, k = self.q_norm(q), self.k_norm(k)
            if self.rope is not None:
                places = all_positions(q, positions)
                q, k = self.rope(q, places), self.rope(k, places)
        else:
            qkv = fused_qkv(x, half_split_weights(self, self.num_kv_heads), values)
            if self.kernel is not None and positions is None:
                return self.output_proj(attend_by_kernel(self.kernel, qkv, self, self.num_kv_heads))
            q, k, v = split_heads(qkv, self.num_heads, self.num_kv_heads)
            q, k = rotate_half_split(q, k, self.rope, positions)
        group = self.num_heads // self.num_kv_heads
        if group > 1:
            k, v = (
                repeat(part, "... heads seq d -> ... (heads group) seq d", group=group)
                for part in (k, v)
            )
        return self.output_proj(join_heads(attend(q, k, v)))


def has_qk_norm(attention: CausalSelfAttention) -> bool:
    """Tell whether queries and keys are normalised."""
    norm = getattr(attention, "q_norm", None)
    return norm is not None and len(list(norm.parameters())) > 0


def fused_qkv(
    x: Float[Tensor, "... seq d_model"],
    weights: Sequence[Tensor],
    values: Float[Tensor, "... seq d_kv"] | None,
) -> Float[Tensor, "... seq d_qkv"]:
    """Return queries, keys and values from one product, or from two beside the values given."""
    if values is None:
        return x @ stack(weights).T
    return torch.cat([x @ stack(weights[:2]).T, values], dim=-1)


def half_split_weights(attention: CausalSelfAttention, num_kv_heads: int) -> list[Tensor]:
    """Return the weights of queries, keys and values, the first two in half-split order."""
    q, k, v = (
        projection.weight for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    if attention.rope is None:
        return [q, k, v]
    return [to_half_split(q, attention.num_heads), to_half_split(k, num_kv_heads), v]


def to_half_split(weight: Float[Tensor, "rows d_in"], num_heads: int) -> Tensor:
    """Put the rows of each head into half-split order.

    The book's RoPE pairs are rows 2i and 2i + 1 of a head; here they are rows i and i + d_head / 2.
    """
    return rearrange(
        weight, "(heads half pair) d_in -> (heads pair half) d_in", heads=num_heads, pair=2
    )


def split_heads(
    qkv: Float[Tensor, "... seq d_qkv"], num_heads: int, num_kv_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Split the result of the fused QKV projection into heads of queries, keys and values."""
    d_head = qkv.shape[-1] // (num_heads + 2 * num_kv_heads)
    sizes = [d_head * count for count in (num_heads, num_kv_heads, num_kv_heads)]
    q, k, v = (
        rearrange(part, "... seq (heads d) -> ... heads seq d", d=d_head)
        for part in qkv.split(sizes, dim=-1)
    )
    return q, k, v


def join_heads(heads: Float[Tensor, "... heads seq d"]) -> Float[Tensor, "... seq d_model"]:
    """Concatenate the results of all heads."""
    return rearrange(heads, "... heads seq d -> ... seq (heads d)")


def all_positions(
    q: Float[Tensor, "... heads seq d"], positions: Int[Tensor, "... seq"] | None
) -> Int[Tensor, "... seq"]:
    """Return positions that broadcast against every head; None means 0, 1, 2, ..."""
    if positions is None:
        return torch.arange(q.shape[-2], device=q.device)
    return positions.unsqueeze(-2)


def rotate_half_split(
    q: Float[Tensor, "... heads seq d"],
    k: Float[Tensor, "... heads seq d"],
    rope: RotaryPositionalEmbedding | None,
    positions: Int[Tensor, "... seq"] | None,
) -> tuple[Tensor, Tensor]:
    """Apply RoPE to queries and keys in half-split order; without RoPE return them unchanged."""
    if rope is None:
        return q, k
    places = all_positions(q, positions)
    cos, sin = rope.cos_and_sin(places)
    return rotate(q, cos, sin), rotate(k, cos, sin)


def rotate(
    x: Float[Tensor, "... seq d"],
    cos: Float[Tensor, "... seq half"],
    sin: Float[Tensor, "... seq half"],
) -> Float[Tensor, "... seq d"]:
    """Rotate pairs whose coordinates lie half a head apart, in at least float32."""
    wide = torch.promote_types(x.dtype, torch.float32)
    first, second = (half.to(wide) for half in x.chunk(2, dim=-1))
    rotated = (first * cos - second * sin, first * sin + second * cos)
    return torch.cat([half.to(x.dtype) for half in rotated], dim=-1)


def attend(
    q: Float[Tensor, "... heads seq d"],
    k: Float[Tensor, "... heads seq d"],
    v: Float[Tensor, "... heads seq d"],
) -> Float[Tensor, "... heads seq d"]:
    """Attend causally, by the kernels for a GPU where they are faster."""
    if q.shape[-2] >= TRITON_FROM and runs_on_triton(q, k, v):
        from cs_basics.fast.triton_attention import TritonCausalAttention

        return TritonCausalAttention.apply(q, k, v)  # pyright: ignore[reportReturnType]
    places = torch.arange(q.shape[-2], device=q.device)
    return scaled_dot_product_attention(q, k, v, places <= places.unsqueeze(-1))


def runs_on_triton(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Tell whether the Triton kernels support these tensors.

    They compute in float32, so float64 is excluded, and need equal shapes and dtypes.
    """
    return (
        q.is_cuda
        and q.dtype == k.dtype == v.dtype != torch.float64
        and q.shape == k.shape == v.shape
        and q.shape[-1] <= LARGEST_KERNEL_HEAD
        and HAS_TRITON
    )


def attend_by_kernel(
    kernel: Kernel,
    qkv: Float[Tensor, "... seq d_qkv"],
    attention: CausalSelfAttention,
    num_kv_heads: int,
) -> Float[Tensor, "... seq d_model"]:
    """Apply RoPE and attention in one operation."""
    rope = attention.rope
    if rope is None:
        return kernel(qkv, None, None, attention.num_heads, num_kv_heads)
    assert isinstance(rope, TabledRoPE)
    cos, sin = rope.cos, rope.sin
    return kernel(qkv, cos, sin, attention.num_heads, num_kv_heads)
