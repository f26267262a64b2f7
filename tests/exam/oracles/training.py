"""Optimizer, clipping and schedule."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oracles import CHOSEN
from oracles.model import Array, wide


def adamw(
    groups: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    gradients: Sequence[Sequence[Array | None]],
    rates: Sequence[float] | None = None,
    changes: Sequence[Mapping[str, Any]] | None = None,
    is_decay_last: bool | None = None,
) -> list[list[Array]]:
    """Return all parameters after each step, as `probes.optimize` does.

    Where no contract chooses, either order of decay and update is right: the items allow both.
    """
    is_decay_last = "decay_last" in CHOSEN if is_decay_last is None else is_decay_last
    parameters = [
        {**options, **group, "p": wide(array), "m": 0.0, "v": 0.0, "t": 0}
        for group in groups
        for array in group["params"]
    ]
    trail = []
    for step, row in enumerate(gradients):
        for state, g in zip(parameters, row, strict=True):
            state |= changes[step] if changes else {}
            if g is None:
                continue
            lr = state["lr"] if rates is None else rates[step]
            beta1, beta2 = state["betas"]
            state["t"] += 1
            state["m"] = beta1 * state["m"] + (1 - beta1) * wide(g)
            state["v"] = beta2 * state["v"] + (1 - beta2) * wide(g) ** 2
            m_hat = state["m"] / (1 - beta1 ** state["t"])
            v_hat = state["v"] / (1 - beta2 ** state["t"])
            update = lr * m_hat / (np.sqrt(v_hat) + state["eps"])
            p, kept = state["p"], 1 - lr * state["weight_decay"]
            state["p"] = (p - update) * kept if is_decay_last else p * kept - update
        trail.append([state["p"] for state in parameters])
    return trail


def clipped(gradients: Sequence[Array | None], max_l2_norm: float) -> list[Array | None]:
    norm = joint_norm(gradients)
    factor = max_l2_norm / (norm + 1e-6) if norm > max_l2_norm else 1.0
    return [None if g is None else wide(g) * factor for g in gradients]


def joint_norm(gradients: Sequence[Array | None]) -> float:
    return math.sqrt(sum(float(np.sum(wide(g) ** 2)) for g in gradients if g is not None))


def cosine_schedule(
    it: int,
    max_learning_rate: float,
    min_learning_rate: float,
    warmup_iters: int,
    cosine_cycle_iters: int,
) -> float:
    if it < warmup_iters:
        return max_learning_rate * it / warmup_iters
    if it >= cosine_cycle_iters:
        return min_learning_rate
    done = (it - warmup_iters) / (cosine_cycle_iters - warmup_iters)
    middle = (max_learning_rate + min_learning_rate) / 2
    return middle + (max_learning_rate - min_learning_rate) / 2 * math.cos(math.pi * done)
