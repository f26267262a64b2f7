"""The model's functions, which have no weights: the first of the model's files to read.

Annotations give the shapes: `Float[Tensor, "... d"]` is a float tensor with any leading axes
and a last axis named d; `{self.d}` an axis of the size self.d, "" a scalar, and " d" a single axis.
Tested by `make test ARGS="-k 'softmax or silu or cross_entropy or attention'"`.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def silu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Multiply each value by its sigmoid (SiLU, also called swish).

    Hendrycks and Gimpel 2016, sec. 2 (https://arxiv.org/abs/1606.08415).

    >>> silu(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2689,  0.0000,  0.7311])
    """
    return x * torch.sigmoid(x)


def softmax(x: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
    """Turn scores into probabilities along one axis: exp(x) / sum(exp(x)).

    >>> softmax(torch.tensor([[0.0, math.log(3)], [1000.0, 1000.0]]), -1)
    tensor([[0.2500, 0.7500],
            [0.5000, 0.5000]])

    Args:
        x: Scores of any shape and float dtype; computed in at least float32.
        dim: The axis along which the probabilities sum to 1.

    Returns:
        Probabilities, same shape and dtype as x.
    """
    scores = x.to(torch.promote_types(x.dtype, torch.float32))
    # Unless the maximum is subtracted, exp could overflow. Subtracting any number leaves the result
    # as it is, so no gradient need pass through the maximum.
    weights = torch.exp(scores - scores.amax(dim=dim, keepdim=True).detach())
    return (weights / weights.sum(dim=dim, keepdim=True)).to(x.dtype)


def cross_entropy(
    logits: Float[Tensor, "... vocab_size"], targets: Int[Tensor, "..."]
) -> Float[Tensor, ""]:
    """Average -log softmax(logits)[target], the natural logarithm, over all positions.

    Its unit is the nat. An improbable target gives a large loss, not an infinite one.

    >>> cross_entropy(torch.tensor([[0.0, 0.0], [0.0, 200.0]]), torch.tensor([1, 0]))
    tensor(100.3466)

    Args:
        logits: Unnormalised scores, (..., vocab_size); computed in at least float32.
        targets: The right index for each position, (...), integers in [0, vocab_size).

    Returns:
        The mean over all positions, a scalar in at least float32.

    Raises:
        ValueError: The shapes do not fit, or there is no position to average over.
    """
    if logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"logits of shape {tuple(logits.shape)} need targets of shape "
            f"{tuple(logits.shape[:-1])}, not {tuple(targets.shape)}"
        )
    if targets.numel() == 0:
        raise ValueError("targets is empty: there is nothing to average")
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    # -log softmax(logits)[target] = log(sum(exp(logits))) - logits[target]: the probabilities are
    # never formed, so none can underflow to log(0). As in softmax, the maximum needs no gradient.
    shifted = logits - logits.amax(dim=-1, keepdim=True).detach()
    log_normaliser = torch.log(torch.exp(shifted).sum(dim=-1))
    target_logits = shifted.gather(-1, targets.long().unsqueeze(-1)).squeeze(-1)
    return (log_normaliser - target_logits).mean()


def scaled_dot_product_attention(
    q: Float[Tensor, "... queries d_k"],
    k: Float[Tensor, "... keys d_k"],
    v: Float[Tensor, "... keys d_v"],
    mask: Bool[Tensor, "... queries keys"] | None = None,
) -> Float[Tensor, "... queries d_v"]:
    """Average the values, weighted by how well each query matches each key.

    softmax(q k^T / sqrt(d_k)) v; Vaswani et al. 2017, eq. 1 (https://arxiv.org/abs/1706.03762).
    Dot products of random vectors have a standard deviation of sqrt(d_k), and of 1 once divided.

    >>> is_visible = torch.ones(3, 3, dtype=torch.bool).tril()  # a causal mask
    >>> nothing, v = torch.zeros(3, 1), torch.tensor([[3.0], [5.0], [7.0]])
    >>> scaled_dot_product_attention(nothing, nothing, v, is_visible)  # 3, 8 / 2, 15 / 3
    tensor([[3.],
            [4.],
            [5.]])

    Args:
        q: Queries: what each position looks for.
        k: Keys: what each position can be found by.
        v: Values: what each position then gives.
        mask: True where a query may attend to a key; None lets every query see every key. A
            query that may see nothing gets zeros. Masked values must be finite: their weight
            is 0, and 0 times NaN or infinity is NaN.

    Returns:
        One mixture of values for each query, in the dtype of v.
    """
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is None:
        return softmax(scores, -1) @ v
    # The lowest finite score, not -inf: a row of -inf alone would become NaN in softmax. Where a
    # query sees nothing, softmax makes all weights equal: they are set to 0 below.
    lowest = torch.finfo(scores.dtype).min
    probabilities = softmax(scores.masked_fill(~mask, lowest), -1)
    return probabilities.masked_fill(~mask, 0.0) @ v
