"""AdamW with a compiled update rule: one pass over each parameter and its moments.

Uncompiled, the rule of `AdamW.step` is a dozen tensor operations, each of which reads and writes
memory once the model exceeds the caches; compiled it is one loop (docs/performance.md).

On a GPU the time goes into starting kernels, some for each parameter. There each operation is
started once for all parameters of a group, which is `update_together`.
"""

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cs_basics.fast.compilation import compile_if_possible
from cs_basics.optim import AdamW


class FusedAdamW(AdamW):
    """AdamW with a compiled update; arguments, errors and state dict as in AdamW."""

    # PyTorch wraps these to exclude them from compilation, which imports the whole compiler:
    # 150 MB, wasted in a process that compiles nothing (native/ahead_of_time.py).
    add_param_group = inspect.unwrap(AdamW.add_param_group)
    zero_grad = inspect.unwrap(AdamW.zero_grad)
    state_dict = inspect.unwrap(AdamW.state_dict)
    load_state_dict = inspect.unwrap(AdamW.load_state_dict)

    _update: Callable[..., None] | None = None
    _is_together = False

    def use(self, update: Callable[..., None]) -> None:
        """Update with a given function that is equivalent to `update_in_place`."""
        self._update = update

    def compile(self, device: torch.device) -> None:
        """Compile the update for parameters of any shape; warn if that is impossible.

        Nothing is compiled for a GPU, where all parameters of a group are updated together.
        """
        if device.type == "cuda":
            self._is_together = True
            return
        update = compile_if_possible(update_in_place, device, is_dynamic=True)
        self._update = None if update is update_in_place else update

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # noqa: ANN401
        """Update every parameter that has a gradient; return what the closure returns."""
        if self._update is None and not self._is_together:
            return super().step(closure)
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            states = [self.state[p] for p in params]
            for p, state in zip(params, states, strict=True):
                if not state:
                    state.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["step"] += 1
            if self._update is None:
                update_together(params, states, group)
                continue
            for p, state in zip(params, states, strict=True):
                # Detached, because the compiler assumes a static shape for an nn.Parameter.
                tensors = (p.detach(), p.grad, state["m"], state["v"])
                self._update(*tensors, *numbers(group, state["step"]))
        return loss


def numbers(group: dict[str, Any], step: int) -> list[Tensor]:
    """Return the scalar arguments of `update_in_place` as tensors.

    As Python numbers they would be constants of the compiled code, and a new learning rate would
    compile it again.
    """
    beta1, beta2 = group["betas"]
    rate = bias_corrected(group["lr"], beta1, beta2, step)
    values = (beta1, beta2, rate, group["eps"], 1 - group["lr"] * group["weight_decay"])
    return [torch.tensor(value, dtype=torch.float64) for value in values]


def bias_corrected(lr: float, beta1: float, beta2: float, step: int) -> float:
    """Return the rate of step 1, 2, 3, ..., corrected for moments that start at 0."""
    return lr * math.sqrt(1 - beta2**step) / (1 - beta1**step)


def update_in_place(
    p: Tensor,
    grad: Tensor,
    m: Tensor,
    v: Tensor,
    beta1: Tensor,
    beta2: Tensor,
    rate: Tensor,
    eps: Tensor,
    decay: Tensor,
) -> None:
    """Make one step of AdamW with a parameter and its moments, in place.

    Args:
        p: The parameter, of any shape; grad, m and v have the same shape.
        grad: Its gradient.
        m: Running mean of the gradient.
        v: Running mean of the squared gradient.
        beta1: How much of the old m is kept.
        beta2: How much of the old v is kept.
        rate: The learning rate, corrected for the bias of both moments.
        eps: Added to the root of v.
        decay: Factor of the old parameter.
    """
    m.copy_(beta1 * m + (1 - beta1) * grad)
    v.copy_(beta2 * v + (1 - beta2) * grad * grad)
    p.copy_(decay * p - rate * m / (v.sqrt() + eps))


def update_together(
    params: list[Tensor], states: list[dict[str, Any]], group: dict[str, Any]
) -> None:
    """Make one step of AdamW with all parameters of a group and their moments, in place.

    Args:
        params: Parameters with gradients.
        states: Of each, its moments and the number of its steps, this one included.
        group: The group's rate, betas, eps and decay.
    """
    if not params:
        return
    beta1, beta2 = group["betas"]
    rates = [bias_corrected(group["lr"], beta1, beta2, state["step"]) for state in states]
    grads: Any = [p.grad for p in params]
    m, v = ([state[name] for state in states] for name in ("m", "v"))
    each: Any = torch  # Its operations on lists are documented, under private names.
    each._foreach_lerp_(m, grads, 1 - beta1)
    each._foreach_mul_(v, beta2)
    each._foreach_addcmul_(v, grads, grads, 1 - beta2)
    roots = each._foreach_add(each._foreach_sqrt(v), group["eps"])
    each._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
    each._foreach_addcdiv_(params, m, roots, [-rate for rate in rates])
