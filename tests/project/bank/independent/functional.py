"""The functions of the model that hold no weights."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def silu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    return torch.sigmoid(x).mul(x)


def softmax(x: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
    z = _widen(x)
    top = z.max(dim, keepdim=True).values if z.shape[dim] else z
    e = torch.exp(z - top.detach())
    return torch.div(e, e.sum(dim, keepdim=True)).to(x.dtype)


def cross_entropy(
    logits: Float[Tensor, "... vocab_size"], targets: Int[Tensor, "..."]
) -> Float[Tensor, ""]:
    *lead, classes = logits.shape
    if tuple(lead) != tuple(targets.shape):
        raise ValueError(
            f"logits {tuple(logits.shape)} need targets of shape {tuple(lead)}, "
            f"not {tuple(targets.shape)}"
        )
    if not targets.numel() or not classes:
        raise ValueError("a mean over nothing: there is no position")
    rows = _widen(logits).reshape(-1, classes)
    rows = rows - rows.detach().max(1, keepdim=True).values
    right = rows.gather(1, targets.reshape(-1, 1).long())
    surprise = rows.exp().sum(1, keepdim=True).log() - right
    return surprise.sum() / surprise.numel()


def scaled_dot_product_attention(
    q: Float[Tensor, "... queries d_k"],
    k: Float[Tensor, "... keys d_k"],
    v: Float[Tensor, "... keys d_v"],
    mask: Bool[Tensor, "... queries keys"] | None = None,
) -> Float[Tensor, "... queries d_v"]:
    scores = _widen(torch.matmul(q * q.shape[-1] ** -0.5, k.transpose(-2, -1)))
    if mask is not None:
        scores = torch.where(mask, scores, -math.inf)
    best = scores.detach().max(-1, keepdim=True).values
    best = torch.where(torch.isinf(best), 0.0, best)  # a row without a key: exp(-inf - 0) = 0
    share = torch.exp(scores - best)
    total = share.sum(-1, keepdim=True)
    share = share / torch.where(total == 0, 1.0, total)
    return torch.matmul(share.to(v.dtype), v)


def _widen(x: Tensor) -> Tensor:
    """Return 16-bit numbers in float32, wider ones as they are."""
    return x.float() if x.element_size() < 4 else x
