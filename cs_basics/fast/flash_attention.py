"""Causal attention that never holds the whole square of scores. The clear form: functional.py.

Flash attention (Dao et al. 2022, algorithm 1, https://arxiv.org/abs/2205.14135; the order of its
loops is that of Dao 2023, sec. 3.1, https://arxiv.org/abs/2307.08691), as tensor operations on
tiles. Three things make it cheaper than the clear form:

- a softmax can be corrected afterwards: if a later tile holds a higher score, what was summed so
  far is scaled down (online softmax, Milakov and Gimelshein 2018, https://arxiv.org/abs/1805.02867);
- tiles above the diagonal are not computed at all, and only those on it need a mask;
- the backward computes the scores anew instead of keeping them: of each row the logarithm of its
  normaliser is enough. Kept for the backward: seq numbers a head and not seq^2.

On a CUDA device whose installation has Triton, kernels do the same (triton_attention.py). Tested by
`make test ARGS=tests/project/fast/test_flash_attention.py`.
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
LARGEST_KERNEL_HEAD = 256  # A kernel holds the rows of its block in registers.


def flash_causal_attention(
    q: Float[Tensor, "... seq d_k"],
    k: Float[Tensor, "... seq d_k"],
    v: Float[Tensor, "... seq d_v"],
    tile: int = TILE,
) -> Float[Tensor, "... seq d_v"]:
    """Average the values up to each query's own position, weighted by how well they match.

    Same as `scaled_dot_product_attention` with a causal mask, up to rounding.

    Args:
        q: Queries; the products are computed in their dtype, the softmax in at least float32.
        k: Keys, as many as queries.
        v: Values.
        tile: Queries, and keys, of one tile; kernels have tiles of their own.

    Raises:
        ValueError: There are not as many queries, keys and values, or tile is below 1.
    """
    if not q.shape[-2] == k.shape[-2] == v.shape[-2]:
        raise ValueError(
            f"{q.shape[-2]} queries, {k.shape[-2]} keys and {v.shape[-2]} values: "
            "causal attention needs as many of each"
        )
    if tile < 1:
        raise ValueError(f"tile={tile} must be at least 1")
    if runs_on_triton(q, k, v):
        from cs_basics.fast.triton_attention import TritonCausalAttention

        return TritonCausalAttention.apply(q, k, v)
    return FlashCausalAttention.apply(q, k, v, tile)


def runs_on_triton(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Tell whether the kernels take queries, keys and values.

    They compute in float32, too little for float64, and know one shape and one dtype for all.
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

    Backward: with p = softmax(s), computed anew as exp(s - lse), lse = log sum exp(s) being saved,

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
        tile: int,
    ) -> Float[Tensor, "... seq d_v"]:
        """Return the mixture of values for each query."""
        outputs: list[Tensor] = []
        log_normalisers: list[Tensor] = []
        tiles = list(zip(k.split(tile, dim=-2), v.split(tile, dim=-2), strict=True))
        for number, q_tile in enumerate(q.split(tile, dim=-2)):
            # The tile on the diagonal first: every query sees a key there, so that the highest
            # score is a number from then on.
            k_tile, v_tile = tiles[number]
            scores = _scores(q_tile, k_tile, is_diagonal=True)
            highest = scores.amax(dim=-1, keepdim=True)
            # Rounded before they are summed: the sum is that of the weights that are used.
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
        ctx.tile = tile  # pyright: ignore[reportAttributeAccessIssue]
        return output

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  as PyTorch wants it
        ctx: BackwardCFunction, grad: Float[Tensor, "... seq d_v"]
    ) -> tuple[Tensor, Tensor, Tensor, None]:
        """Return the gradients of q, k and v."""
        q, k, v, output, log_normaliser = ctx.saved_tensors  # pyright: ignore[reportAssignmentType]
        tile: int = ctx.tile  # pyright: ignore[reportAttributeAccessIssue]
        delta = (output.to(log_normaliser.dtype) * grad).sum(dim=-1, keepdim=True)
        rows = list(
            zip(*(x.split(tile, dim=-2) for x in (q, grad, log_normaliser, delta)), strict=True)
        )
        grads_q: list[Tensor | None] = [None] * len(rows)
        grads_k: list[Tensor] = []
        grads_v: list[Tensor] = []
        scale = 1 / math.sqrt(q.shape[-1])
        for number, (k_tile, v_tile) in enumerate(
            zip(k.split(tile, dim=-2), v.split(tile, dim=-2), strict=True)
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
            None,
        )


def _scores(
    q: Float[Tensor, "... queries d_k"], k: Float[Tensor, "... keys d_k"], is_diagonal: bool = False
) -> Float[Tensor, "... queries keys"]:
    """Return the scores of a tile in at least float32; on the diagonal the future gets -inf."""
    scores = q @ k.transpose(-2, -1)
    # Multiplied by the reciprocal: a division takes a processor ten times as long.
    scores = scores.to(torch.promote_types(q.dtype, torch.float32)) * (1 / math.sqrt(q.shape[-1]))
    if not is_diagonal:
        return scores
    places = torch.arange(q.shape[-2], device=q.device, dtype=torch.int32)
    return scores.masked_fill(places > places.unsqueeze(-1), -math.inf)


def _plus(total: Float[Tensor, "..."] | None, part: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Add in at least float32: rounding every partial sum to bfloat16 would add up."""
    part = part.to(torch.promote_types(part.dtype, torch.float32))
    return part if total is None else total + part
