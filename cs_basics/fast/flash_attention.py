"""FlashAttention-style causal attention: tensor operations on tiles, never all scores at once.

FlashAttention is Dao et al. 2022, algorithm 1 (https://arxiv.org/abs/2205.14135); the loop order is
that of Dao 2023, sec. 3.1 (https://arxiv.org/abs/2307.08691). It differs from the reference
implementation, `scaled_dot_product_attention` in functional.py, in three ways:

- online softmax (Milakov and Gimelshein 2018, https://arxiv.org/abs/1805.02867): if a later tile
  has a higher score, the sums so far are scaled down;
- tiles above the diagonal are skipped, and only tiles on the diagonal need a mask;
- the backward recomputes the scores from the log-normaliser of each row, so that the forward keeps
  seq numbers per head instead of seq^2.

On CUDA devices with Triton installed, Triton kernels do the same (triton_attention.py).
"""

import importlib.util
import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import BackwardCFunction, once_differentiable

# The kernels are imported where they are called: without Triton this file works too.
HAS_TRITON = importlib.util.find_spec("triton") is not None
TILE = 128
"""Queries, and keys, of one tile; Triton kernels choose their own."""
LARGEST_KERNEL_HEAD = 256  # A kernel holds the rows of its block in registers.


def flash_causal_attention(
    q: Float[Tensor, "... seq d_k"],
    k: Float[Tensor, "... seq d_k"],
    v: Float[Tensor, "... seq d_v"],
) -> Float[Tensor, "... seq d_v"]:
    """Compute causal attention in tiles.

    Equal to `scaled_dot_product_attention` with a causal mask, up to rounding.

    Args:
        q: Queries; the products are computed in their dtype, the softmax in at least float32.
        k: Keys, as many as queries.
        v: Values, as many as queries.

    Raises:
        ValueError: The numbers of queries, keys and values differ.
    """
    if not q.shape[-2] == k.shape[-2] == v.shape[-2]:
        raise ValueError(
            f"{q.shape[-2]} queries, {k.shape[-2]} keys and {v.shape[-2]} values: "
            "causal attention needs the same number of each"
        )
    if runs_on_triton(q, k, v):
        from cs_basics.fast.triton_attention import TritonCausalAttention

        return TritonCausalAttention.apply(q, k, v)
    return FlashCausalAttention.apply(q, k, v)


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


class FlashCausalAttention(torch.autograd.Function):
    """o = softmax(s) v with s = q k^T / sqrt(d), causal, tile by tile.

    Backward: with p = softmax(s), recomputed as exp(s - lse) from the saved lse = log sum exp(s),

        dL/dv = p^T dL/do
        dL/dp = dL/do v^T
        dL/ds = p * (dL/dp - delta),   delta = sum_j p_j dL/dp_j = sum(o * dL/do) of each row

    and dL/dq, dL/dk follow from dL/ds as from any product.
    """

    @staticmethod
    def forward(
        ctx: BackwardCFunction,
        q: Float[Tensor, "... seq d_k"],
        k: Float[Tensor, "... seq d_k"],
        v: Float[Tensor, "... seq d_v"],
    ) -> Float[Tensor, "... seq d_v"]:
        """Return the weighted mean of the values for each query."""
        outputs: list[Tensor] = []
        log_normalisers: list[Tensor] = []
        tiles = list(zip(k.split(TILE, dim=-2), v.split(TILE, dim=-2), strict=True))
        for number, q_tile in enumerate(q.split(TILE, dim=-2)):
            # The diagonal tile first: every query sees a key there, so the highest score is finite
            # from then on.
            k_tile, v_tile = tiles[number]
            scores = _scores(q_tile, k_tile, is_diagonal=True)
            highest = scores.amax(dim=-1, keepdim=True)
            # Rounded before they are summed, so that the sum is that of the weights in use.
            weights = torch.exp(scores - highest).to(v.dtype)
            total = weights.sum(dim=-1, keepdim=True, dtype=scores.dtype)
            mixture = (weights @ v_tile).to(scores.dtype)
            for k_tile, v_tile in tiles[:number]:
                scores = _scores(q_tile, k_tile)
                higher = torch.maximum(highest, scores.amax(dim=-1, keepdim=True))
                shrink = torch.exp(highest - higher)
                weights = torch.exp(scores - higher).to(v.dtype)
                total = total * shrink + weights.sum(dim=-1, keepdim=True, dtype=scores.dtype)
                mixture = mixture * shrink + weights @ v_tile
                highest = higher
            outputs.append((mixture / total).to(v.dtype))
            log_normalisers.append(highest + total.log())
        output, log_normaliser = torch.cat(outputs, dim=-2), torch.cat(log_normalisers, dim=-2)
        ctx.save_for_backward(q, k, v, output, log_normaliser)
        return output

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  as PyTorch wants it
        ctx: BackwardCFunction, grad: Float[Tensor, "... seq d_v"]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of q, k and v."""
        q, k, v, output, log_normaliser = ctx.saved_tensors  # pyright: ignore[reportAssignmentType]
        delta = (output.to(log_normaliser.dtype) * grad).sum(dim=-1, keepdim=True)
        rows = list(
            zip(*(x.split(TILE, dim=-2) for x in (q, grad, log_normaliser, delta)), strict=True)
        )
        grads_q: list[Tensor | None] = [None] * len(rows)
        grads_k: list[Tensor] = []
        grads_v: list[Tensor] = []
        scale = 1 / math.sqrt(q.shape[-1])
        for number, (k_tile, v_tile) in enumerate(
            zip(k.split(TILE, dim=-2), v.split(TILE, dim=-2), strict=True)
        ):
            grad_k = grad_v = None
            for row in range(number, len(rows)):
                q_tile, grad_tile, row_normaliser, row_delta = rows[row]
                scores = _scores(q_tile, k_tile, is_diagonal=row == number)
                weights = torch.exp(scores - row_normaliser)
                grad_weights = grad_tile @ v_tile.transpose(-2, -1)
                grad_scores = (weights * (grad_weights - row_delta) * scale).to(q.dtype)
                grad_v = _plus(grad_v, weights.to(v.dtype).transpose(-2, -1) @ grad_tile)
                grad_k = _plus(grad_k, grad_scores.transpose(-2, -1) @ q_tile)
                grads_q[row] = _plus(grads_q[row], grad_scores @ k_tile)
            assert grad_k is not None
            assert grad_v is not None
            grads_k.append(grad_k)
            grads_v.append(grad_v)
        done = [part for part in grads_q if part is not None]
        return (
            torch.cat(done, dim=-2).to(q.dtype),
            torch.cat(grads_k, dim=-2).to(k.dtype),
            torch.cat(grads_v, dim=-2).to(v.dtype),
        )


def _scores(
    q: Float[Tensor, "... queries d_k"], k: Float[Tensor, "... keys d_k"], is_diagonal: bool = False
) -> Float[Tensor, "... queries keys"]:
    """Return the scores of a tile in at least float32; future keys get -inf on the diagonal."""
    scores = q @ k.transpose(-2, -1)
    # Multiplication by the reciprocal: a division takes ten times as long.
    scores = scores.to(torch.promote_types(q.dtype, torch.float32)) * (1 / math.sqrt(q.shape[-1]))
    if not is_diagonal:
        return scores
    places = torch.arange(q.shape[-2], device=q.device, dtype=torch.int32)
    return scores.masked_fill(places > places.unsqueeze(-1), -math.inf)


def _plus(total: Float[Tensor, "..."] | None, part: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Add in at least float32, so that rounding errors of bfloat16 do not accumulate."""
    part = part.to(torch.promote_types(part.dtype, torch.float32))
    return part if total is None else total + part
