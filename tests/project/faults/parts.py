"""Right building blocks in plain tensor arithmetic, for faults to get one thing wrong in."""

import math
from collections.abc import Callable
from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn

Turn = Callable[[Tensor], Tensor]


def parameter(tensor: Tensor) -> nn.Parameter:
    return nn.Parameter(tensor.detach().clone())


def unchanged(x: Tensor) -> Tensor:
    return x


def silu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    shifted = (x - x.amax(dim, keepdim=True)).exp()
    return shifted / shifted.sum(dim, keepdim=True)


def log_sum_exp(x: Tensor) -> Tensor:
    top = x.amax(-1, keepdim=True)
    return (x - top).exp().sum(-1).log() + top[..., 0]


def mean_square(x: Tensor) -> Tensor:
    return x.pow(2).mean(-1, keepdim=True)


def rmsnorm(x: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(mean_square(wide) + eps) * weight).to(x.dtype)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    fill: float = -math.inf,
    normalise: Turn = softmax,
) -> Tensor:
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, fill)
    return normalise(scores) @ v


def causal(length: int, diagonal: int = 0) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril(diagonal)


def angles(positions: Tensor, d_k: int, theta: float) -> Tensor:
    pair = torch.arange(0, d_k, 2, device=positions.device).float()
    return positions[..., None].float() / theta ** (pair / d_k)


def rotate(x: Tensor, angle: Tensor) -> Tensor:
    """Turn the pairs (2i, 2i+1)."""
    cos, sin = angle.cos(), angle.sin()
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1)
    return turned.flatten(-2).to(x.dtype)


def rotate_halves(x: Tensor, angle: Tensor) -> Tensor:
    """Turn the pairs (i, i + d_k/2), as some other models do."""
    cos, sin = angle.cos(), angle.sin()
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    return rearrange(x, "... seq (heads d) -> ... heads seq d", heads=num_heads)


def merge_heads(x: Tensor) -> Tensor:
    return rearrange(x, "... heads seq d -> ... seq (heads d)")


def projections(q_proj_weight, k_proj_weight, v_proj_weight, o_proj_weight) -> list[nn.Parameter]:
    return [parameter(w) for w in (q_proj_weight, k_proj_weight, v_proj_weight, o_proj_weight)]


def multihead(
    x: Tensor,
    weights: list[Tensor],
    num_heads: int,
    *,
    mask: Callable[[int], Tensor | None] = causal,
    scale: float | None = None,
    split: Callable[[Tensor, int], Tensor] = split_heads,
    merge: Turn = merge_heads,
    before_split: Turn = unchanged,
    turn_q: Turn = unchanged,
    turn_k: Turn = unchanged,
    turn_v: Turn = unchanged,
) -> Tensor:
    """Causal self-attention with the weights of queries, keys, values and output."""
    q, k, v = (x @ weight.T for weight in weights[:3])
    q, k = before_split(q), before_split(k)
    heads = [turn_q(split(q, num_heads)), turn_k(split(k, num_heads)), turn_v(split(v, num_heads))]
    mixed = attention(*heads, mask(x.shape[-2]), scale)
    return merge(mixed) @ weights[3].T


def block_attention(
    x: Tensor, weights: dict[str, Any], num_heads: int, theta: float, use_rope: bool = True
) -> Tensor:
    """The attention of a Transformer block, RoPE included."""
    own = [weights[f"attn.{name}_proj.weight"] for name in ("q", "k", "v", "output")]

    def turn(z: Tensor) -> Tensor:
        positions = torch.arange(z.shape[-2])
        return rotate(z, angles(positions, z.shape[-1], theta)) if use_rope else z

    return multihead(x, own, num_heads, turn_q=turn, turn_k=turn)


def block_feedforward(x: Tensor, weights: dict[str, Any]) -> Tensor:
    gate, value = x @ weights["ffn.w1.weight"].T, x @ weights["ffn.w3.weight"].T
    return (silu(gate) * value) @ weights["ffn.w2.weight"].T
