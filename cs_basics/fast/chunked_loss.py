"""Output head and cross-entropy in chunks, so that the logits of a batch never exist all at once.

The reference implementation is `cross_entropy(hidden @ weight.T, targets)`. Its logits and their
gradient are the largest tensors of a small model: 4,096 tokens times a vocabulary of 10,000 are
164 MB each in float32. Here the forward computes the loss and the gradient of one chunk of rows
before it goes on to the next. It can do so because the gradient of a mean over rows does not depend
on other rows; only its scale comes from outside, and the backward multiplies by that.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import BackwardCFunction, once_differentiable

CHUNK_TOKENS = 512
"""Positions whose logits exist at the same time."""


def linear_cross_entropy(
    hidden: Float[Tensor, "... d_model"],
    weight: Float[Tensor, "vocab_size d_model"],
    targets: Int[Tensor, "..."],
) -> Float[Tensor, ""]:
    """Average the negative log-likelihood of the targets under softmax(hidden @ weight.T), in nats.

    Args:
        hidden: Input of the output head, (..., d_model). The matrix products are computed in its
            dtype, everything after them in at least float32.
        weight: Weight of the output head.
        targets: Token id to predict at each position, (...), in [0, vocab_size).

    Returns:
        The mean over all positions, a scalar in at least float32.

    Raises:
        ValueError: The shapes do not fit, or targets is empty.
    """
    if hidden.shape[:-1] != targets.shape:
        raise ValueError(
            f"hidden of shape {tuple(hidden.shape)} needs targets of shape "
            f"{tuple(hidden.shape[:-1])}, not {tuple(targets.shape)}"
        )
    if targets.numel() == 0:
        raise ValueError("targets is empty: there is nothing to average")
    rows = hidden.reshape(-1, hidden.shape[-1])
    return LinearCrossEntropy.apply(rows, weight, targets.reshape(-1), torch.is_grad_enabled())


class LinearCrossEntropy(torch.autograd.Function):
    """The mean over n rows of -log softmax(z)[target], with z = h W^T, chunk by chunk.

    With p = softmax(z) and y the row of zeros with a 1 at the target

        dL/dz = (p - y) / n
        dL/dh = dL/dz W           a row needs its own logits only
        dL/dW = (dL/dz)^T h       a sum over rows, so a sum over chunks

    The forward computes all three; the backward only multiplies by the incoming gradient, which is
    1 unless the loss is part of a larger expression. So compute a loss without its gradient under
    `no_grad`: otherwise it costs three matrix products instead of one.
    """

    @staticmethod
    def forward(
        ctx: BackwardCFunction,
        hidden: Float[Tensor, "n d_model"],
        weight: Float[Tensor, "vocab_size d_model"],
        targets: Int[Tensor, " n"],
        with_gradient: bool,
    ) -> Float[Tensor, ""]:
        """Return the mean loss."""
        wide = torch.promote_types(hidden.dtype, torch.float32)
        head = weight.to(hidden.dtype)
        num_rows = hidden.shape[0]
        losses: list[Tensor] = []
        grads_hidden: list[Tensor] = []
        grad_weight = None
        for rows, target in zip(
            hidden.split(CHUNK_TOKENS), targets.split(CHUNK_TOKENS), strict=True
        ):
            logits, column = rows @ head.T, target.unsqueeze(-1)
            highest = logits.amax(dim=-1, keepdim=True).to(wide)
            weights = torch.exp(logits.to(wide) - highest)
            total = weights.sum(dim=-1, keepdim=True)
            log_chosen = logits.gather(-1, column).to(wide) - highest - total.log()
            losses.append(-log_chosen.sum())
            if not with_gradient:
                continue
            probabilities = (weights * (1 / (total * num_rows))).to(hidden.dtype)
            # Subtracting a one-hot row would compare every column with the target, which takes as
            # long as everything else here; so the target's entry is written afterwards.
            at_target = (log_chosen.exp() - 1) / num_rows
            grad_logits = probabilities.scatter(-1, column, at_target.to(hidden.dtype))
            grads_hidden.append(grad_logits @ head)
            part = (grad_logits.T @ rows).to(wide)
            grad_weight = part if grad_weight is None else grad_weight + part
        if grad_weight is not None:
            ctx.save_for_backward(torch.cat(grads_hidden), grad_weight.to(weight.dtype))
        return torch.stack(losses).sum() / num_rows

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  as PyTorch wants it
        ctx: BackwardCFunction, grad: Float[Tensor, ""]
    ) -> tuple[Tensor, Tensor, None, None]:
        """Return the gradients of hidden and weight."""
        grad_hidden, grad_weight = ctx.saved_tensors  # pyright: ignore[reportAssignmentType]
        return grad_hidden * grad.to(grad_hidden.dtype), grad_weight * grad, None, None
