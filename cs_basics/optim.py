"""Optimizers, schedule, clipping. Tested by `make test ARGS="-k 'adamw or schedule or clip'"`."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

Parameters = Iterable[Tensor] | Iterable[dict[str, Any]]
"""Parameters, or groups: dicts with a list "params" and settings for it, such as "lr"."""


class SGD(Optimizer):
    """Stochastic gradient descent; the rate falls as lr / sqrt(t + 1), t = 0, 1, 2, ...

    The simplest optimizer, to be read before AdamW, which is built in the same way.

    Args:
        params: Parameters or parameter groups.
        lr: Rate of the first step.

    Raises:
        ValueError: lr is negative or not finite.
    """

    def __init__(self, params: Parameters, lr: float = 1e-3) -> None:
        if not 0 <= lr < math.inf:
            raise ValueError(f"lr={lr} must be finite and at least 0")
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; return the result of the closure, if any."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                t = state.get("step", 0)
                p -= group["lr"] / math.sqrt(t + 1) * p.grad
                state["step"] = t + 1
        return loss


class AdamW(Optimizer):
    """Adam with weight decay that acts on the weights and not through the gradient (decoupled).

    m and v are running means of the gradient and of its square. Each step subtracts
    rate * m / (sqrt(v) + eps), where rate is lr, corrected for m and v starting at 0. Loshchilov
    and Hutter 2019, algorithm 2 (https://arxiv.org/abs/1711.05101), with two changes: the decay is
    multiplied by lr, and eps is added before the bias correction (Kingma and Ba 2015, end of sec.
    2, https://arxiv.org/abs/1412.6980). Every parameter counts its own steps; all settings are read
    from its group at every step.

    Args:
        params: Parameters or parameter groups.
        lr: Learning rate.
        betas: The fractions of m and of v that each step keeps.
        eps: Added to the root of v.
        weight_decay: Each step also subtracts lr * weight_decay * p.

    Raises:
        ValueError: lr, eps or weight_decay is negative or not finite, or a beta is not in [0, 1).
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        for name, value in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
            if not 0 <= value < math.inf:
                raise ValueError(f"{name}={value} must be finite and at least 0")
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas={betas} must lie in [0, 1)")
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; return the result of the closure, if any."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            lr, (beta1, beta2) = group["lr"], group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["step"] += 1
                t, m, v = state["step"], state["m"], state["v"]
                m.mul_(beta1).add_((1 - beta1) * p.grad)
                v.mul_(beta2).add_((1 - beta2) * p.grad * p.grad)
                p.mul_(1 - lr * group["weight_decay"])
                # Both running means start at 0: the rate corrects that bias.
                rate = lr * math.sqrt(1 - beta2**t) / (1 - beta1**t)
                p.sub_(rate * m / (v.sqrt() + group["eps"]))
        return loss


def cosine_schedule(
    step: int, max_lr: float, min_lr: float, warmup_steps: int, cycle_steps: float
) -> float:
    """Return the learning rate of a step: linear warm-up, then half a cosine, then the minimum.

    Loshchilov and Hutter 2017, eq. 5 (https://arxiv.org/abs/1608.03983), without restarts.

    >>> [round(cosine_schedule(step, 1.0, 0.1, 2, 4), 2) for step in range(5)]
    [0.0, 0.5, 1.0, 0.55, 0.1]

    Args:
        step: 0, 1, 2, ...; training.py counts from 1, as the rate of step 0 is 0.
        max_lr: Rate at the end of the warm-up.
        min_lr: Rate from cycle_steps on.
        warmup_steps: Steps of warm-up; step 0 has rate 0 unless this is 0.
        cycle_steps: The step at which the minimum is reached, warm-up included; may be a fraction.
    """
    if step < warmup_steps:
        return step / warmup_steps * max_lr
    if step >= cycle_steps:
        return min_lr
    progress = (step - warmup_steps) / (cycle_steps - warmup_steps)
    return min_lr + 0.5 * (1 + math.cos(math.pi * progress)) * (max_lr - min_lr)


@torch.no_grad()
def clip_grad_norm(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """Scale all gradients, in place, so that their joint L2 norm is at most max_norm.

    Pascanu et al. 2013, algorithm 1 (https://arxiv.org/abs/1211.5063): gradients with a norm
    above max_norm are multiplied by max_norm / (norm + 1e-6). The 1e-6 is not in the paper.

    >>> x, y = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    >>> (3 * x + 4 * y).backward()
    >>> clip_grad_norm([x, y], 1.0), x.grad, y.grad
    (tensor(5.), tensor([0.6000]), tensor([0.8000]))

    Args:
        parameters: Parameters; those without a gradient are skipped.
        max_norm: The largest norm that is left alone.

    Returns:
        The joint norm before clipping, a scalar.

    Raises:
        ValueError: max_norm is not greater than 0: a negative one would reverse all gradients.
    """
    if not max_norm > 0:  # This form refuses NaN, too.
        raise ValueError(f"max_norm={max_norm} must be greater than 0")
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return torch.zeros(())
    grads32 = (grad.to(torch.promote_types(grad.dtype, torch.float32)) for grad in grads)
    norm = torch.stack([grad.square().sum() for grad in grads32]).sum().sqrt()
    if norm > max_norm:
        scale = max_norm / (norm.item() + 1e-6)
        for grad in grads:
            grad.mul_(scale)
    return norm
