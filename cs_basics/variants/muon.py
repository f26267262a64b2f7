"""Muon: an optimizer with orthogonalised momentum. Read AdamW in cs_basics/optim.py first."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cs_basics.optim import AdamW

MARGIN = 1.02
"""The interval of a step extends to this factor times the largest value that the step before it
returns. Beyond its interval a polynomial grows steeply, and bfloat16 may round a value up."""

Coefficients = Sequence[tuple[float, float, float]]
"""For each step a, b and c of the polynomial a x + b x^3 + c x^5."""


class Muon(AdamW):
    """Muon for the matrices of some groups, AdamW for all other groups.

    Jordan et al. 2024 (https://kellerjordan.github.io/posts/muon): the update is the momentum with
    its singular values moved close to 1, so that directions with small gradients are learned as
    fast as those with large ones. It is scaled by 0.2 sqrt(max(d_out, d_in)), the size of AdamW's
    updates, so that AdamW's rate and decay fit (Liu et al. 2025, sec. 2.2,
    https://arxiv.org/abs/2502.16982). The momentum is Nesterov's, as in Jordan et al.

    Args:
        params: Groups. One with a `momentum` holds matrices and gets Muon's update, with
            `num_steps` steps of `orthogonalised`; the others get AdamW's.
        **settings: As in AdamW.

    Raises:
        ValueError: A parameter with momentum is not a matrix, or a value is out of its range.
    """

    def __init__(self, params: list[dict[str, Any]], **settings: Any) -> None:  # noqa: ANN401
        super().__init__(params, **settings)
        for group in self.matrix_groups():
            if not 0 <= group["momentum"] < 1:
                raise ValueError(f"momentum={group['momentum']} must be at least 0 and below 1")
            for p in group["params"]:
                if p.dim() != 2:
                    raise ValueError(f"Muon updates matrices, not {tuple(p.shape)}")

    def matrix_groups(self) -> list[dict[str, Any]]:
        """Return the groups that get Muon's update."""
        return [group for group in self.param_groups if "momentum" in group]

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # noqa: ANN401
        """Update every parameter that has a gradient; return what the closure returns."""
        groups = self.param_groups
        self.param_groups = [group for group in groups if "momentum" not in group]
        try:
            loss = super().step(closure)
        finally:
            self.param_groups = groups
        for group in self.matrix_groups():
            self.update_matrices(group)
        return loss

    def update_matrices(self, group: dict[str, Any]) -> None:
        """Update the matrices of a group that have a gradient, and their momenta, in place."""
        momentum, coefficients = group["momentum"], minimax(group["num_steps"])
        for p in group["params"]:
            if p.grad is None:
                continue
            state = self.state[p]
            if not state:
                state["m"] = torch.zeros_like(p)
            state["m"] = momentum * state["m"] + (1 - momentum) * p.grad
            ahead = momentum * state["m"] + (1 - momentum) * p.grad
            update = rate(group["lr"], p) * orthogonalised(ahead, coefficients)
            p.copy_((1 - group["lr"] * group["weight_decay"]) * p - update)


def rate(lr: float, x: Tensor) -> float:
    """Return the factor of the orthogonal update of a matrix."""
    return 0.2 * math.sqrt(max(x.shape)) * lr


def orthogonalised(x: Tensor, coefficients: Coefficients) -> Tensor:
    """Move the singular values of a matrix towards 1; its singular vectors stay.

    Newton-Schulz: a x + b (x x^T) x + c (x x^T)^2 x applies a x + b x^3 + c x^5 to each singular
    value, with matrix products only.

    Args:
        x: The matrix.
        coefficients: The polynomial of each step.
    """
    if x.shape[-2] > x.shape[-1]:
        return orthogonalised(x.mT, coefficients).mT
    # No singular value exceeds the Frobenius norm; 1.01 leaves room for rounding.
    x = x / (1.01 * torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    for a, b, c in coefficients:
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


@functools.cache
def minimax(num_steps: int) -> Coefficients:
    """Return the polynomials whose composition is closest to 1 on an interval [low, 1].

    Amsel et al. 2025, algorithm 1 (https://arxiv.org/abs/2505.16932): each step is the best
    polynomial for the interval that the steps before it leave. With low = 10^(-(num_steps + 1) / 2)
    every value in [low, 1] ends within 0.37 (two steps), 0.29 (three) or 0.14 (five) of 1. Five
    steps of Jordan's polynomial end within 0.53 on the interval for five, [0.001, 1].
    """
    low, high = 10 ** (-(num_steps + 1) / 2), 1.0
    steps: list[tuple[float, float, float]] = []
    for _ in range(num_steps):
        *polynomial, error = best_quintic(low, high)
        steps.append(tuple(polynomial))  # pyright: ignore[reportArgumentType]
        low, high = 1 - error, MARGIN * (1 + error)
    return steps


def best_quintic(low: float, high: float) -> tuple[float, float, float, float]:
    """Return a, b, c of the a x + b x^3 + c x^5 closest to 1 on [low, high], and its error.

    By Remez' algorithm: the best one errs equally, with alternating signs, at both ends and at the
    two extrema between them.
    """
    inner = np.array([(3 * low + high) / 4, (low + 3 * high) / 4])
    a = b = c = error = 0.0
    for _ in range(100):
        x = np.array([low, *inner, high])
        system = np.stack([x, x**3, x**5, [1, -1, 1, -1]], axis=1)
        a, b, c, error = map(float, np.linalg.solve(system, np.ones(4)))
        before, inner = inner, np.sqrt(np.sort(np.roots([5 * c, 3 * b, a]).real))
        if np.allclose(before, inner, rtol=1e-12, atol=0):
            break
    return a, b, c, error
