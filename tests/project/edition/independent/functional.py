"""The functions of the model that hold no weights.

Yours to write (docs/handout.md); examined by `make test ARGS="--problem NAME"`:

    silu                                SiLU (2 points)
    softmax                             Softmax (3 points)
    scaled_dot_product_attention        Scaled dot-product attention (6 points)
    cross_entropy                       Cross-entropy (4 points)
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def silu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Multiply each value by its sigmoid (SiLU, also called swish).

    Hendrycks and Gimpel 2016, sec. 2 (https://arxiv.org/abs/1606.08415).
    """
    return torch.sigmoid(x).mul(x)


def softmax(x: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
    """Turn scores into probabilities along one axis.

    The maximum of each slice is subtracted first: the result is the same and `exp` cannot overflow.

    Args:
        x: Scores of any shape and float dtype; computed in at least float32.
        dim: The axis along which the probabilities sum to 1.

    Returns:
        Probabilities, same shape and dtype as x.
    """
    z = _widen(x)
    top = z.max(dim, keepdim=True).values if z.shape[dim] else z
    e = torch.exp(z - top.detach())
    return torch.div(e, e.sum(dim, keepdim=True)).to(x.dtype)


def cross_entropy(
    logits: Float[Tensor, "... vocab_size"], targets: Int[Tensor, "..."]
) -> Float[Tensor, ""]:
    """Average the negative log-likelihood of the targets, in nats.

    -log softmax(logits)[target] = log(sum(exp(logits))) - logits[target]: the probabilities
    themselves are never formed, so none can underflow to log(0).

    Args:
        logits: Unnormalised scores, (..., vocab_size); computed in at least float32.
        targets: The right index for each position, (...), integers in [0, vocab_size).

    Returns:
        The mean over all positions, a scalar in at least float32.

    Raises:
        ValueError: The shapes do not fit, or there is no position to average over.
    """
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
    """Average the values, weighted by how well each query matches each key.

    softmax(q k^T / sqrt(d_k)) v; Vaswani et al. 2017, eq. 1 (https://arxiv.org/abs/1706.03762).

    Args:
        q: Queries.
        k: Keys.
        v: Values.
        mask: True where a query may attend to a key; None lets every query see every key. A
            query that may see nothing gets zeros.

    Returns:
        One mixture of values for each query, in the dtype of v.
    """
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
