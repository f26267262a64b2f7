"""Optimizers, learning-rate schedule and gradient clipping."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

Parameters = Iterable[Tensor] | Iterable[dict[str, Any]]
"""Parameters, or groups of them with settings of their own."""


class SGD(Optimizer):
    def __init__(self, params: Parameters, lr: float = 1e-3) -> None:
        if lr < 0:
            raise ValueError(f"lr={lr} is negative")
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(  # pyright: ignore[reportIncompatibleMethodOverride]  torch overloads it
        self, closure: Callable[[], float | Tensor] | None = None
    ) -> float | Tensor | None:
        loss = call_closure(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                t = state.get("t", 0)
                p -= group["lr"] / math.sqrt(t + 1) * p.grad
                state["t"] = t + 1
        return loss


class AdamW(Optimizer):
    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        limits = {
            "lr": (lr, math.inf),
            "eps": (eps, math.inf),
            "weight_decay": (weight_decay, math.inf),
            "beta1": (betas[0], 1),
            "beta2": (betas[1], 1),
        }
        for name, (value, end) in limits.items():
            if not 0 <= value < end:
                raise ValueError(f"{name}={value} must be 0 or greater, and below {end}")
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, options)

    @torch.no_grad()
    def step(  # pyright: ignore[reportIncompatibleMethodOverride]  torch overloads it
        self, closure: Callable[[], float | Tensor] | None = None
    ) -> float | Tensor | None:
        loss = call_closure(closure)
        moves = [
            self._move(p, group)
            for group in self.param_groups
            for p in group["params"]
            if p.grad is not None
        ]
        for move in moves:
            move()
        return loss

    def _move(self, p: Tensor, group: dict[str, Any]) -> Callable[[], None]:
        """Return a function that makes one step of one parameter."""
        memory = self.state[p]
        if not memory:
            memory.update(age=0, drift=torch.zeros_like(p), energy=torch.zeros_like(p))

        def move() -> None:
            memory["age"] += 1
            rate, decay, eps = group["lr"], group["weight_decay"], group["eps"]
            keep1, keep2 = group["betas"]
            age, drift, energy, g = memory["age"], memory["drift"], memory["energy"], p.grad
            drift.copy_(keep1 * drift + (1 - keep1) * g)
            energy.copy_(keep2 * energy + (1 - keep2) * g * g)
            corrected = rate * math.sqrt(1 - keep2**age) / (1 - keep1**age)
            p.sub_(corrected * (drift / (energy.sqrt() + eps)))
            p.mul_(1 - rate * decay)

        return move


def call_closure(closure: Callable[[], float | Tensor] | None) -> float | Tensor | None:
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def cosine_schedule(
    step: int, max_lr: float, min_lr: float, warmup_steps: int, cycle_steps: float
) -> float:
    if step < warmup_steps:
        return max_lr * (step / warmup_steps)
    if step > cycle_steps:
        return min_lr
    span = cycle_steps - warmup_steps
    done = (step - warmup_steps) / span if span else 1.0
    # (1 + cos 2a) / 2 = cos(a)^2
    return min_lr + (max_lr - min_lr) * math.cos(math.pi / 2 * done) ** 2


@torch.no_grad()
def clip_grad_norm(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return torch.zeros(())
    home = grads[0].device
    energy = torch.zeros((), device=home)
    for g in grads:
        energy += (g.float() if g.element_size() < 4 else g).square().sum().to(home)
    norm = energy.sqrt()
    factor = torch.where(norm > max_norm, max_norm / (norm + 1e-6), 1.0)
    for g in grads:
        g.mul_(factor.to(g.device))
    return norm
