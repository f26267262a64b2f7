"""AdamW of optim.py once more, for a compiler: each number is read once and written once.

The definition goes over a parameter and its moments eight times, and models whose numbers do not
fit the caches wait for memory each time: 14.0 ms for 8.3 M parameters and one thread, against 6.3
in one pass, of which a step has 2 % (docs/performance.md). On a GPU eight kernels become one.

Tested by `make test ARGS=tests/project/test_one_pass_adamw.py`.
"""

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cs_basics.optim import AdamW, call_closure
from cs_basics.run.hardware import compile_if_possible


class OnePassAdamW(AdamW):
    """AdamW whose update can be compiled; arguments, errors and state dict are those of AdamW."""

    # PyTorch wraps these so that its compiler leaves them alone, and imports the compiler for it:
    # 150 MB of a process that may not need one (ahead_of_time.py).
    add_param_group = inspect.unwrap(AdamW.add_param_group)
    zero_grad = inspect.unwrap(AdamW.zero_grad)
    state_dict = inspect.unwrap(AdamW.state_dict)
    load_state_dict = inspect.unwrap(AdamW.load_state_dict)

    _update: Callable[..., None] | None = None

    def use(self, update: Callable[..., None]) -> None:
        """Update by a function that does what `update_in_place` does."""
        self._update = update

    def compile(self, device: torch.device) -> None:
        """Compile the update, for parameters of any shape; where that is impossible, warn."""
        update = compile_if_possible(update_in_place, device, is_dynamic=True)
        self._update = None if update is update_in_place else update

    @torch.no_grad()
    def step(  # pyright: ignore[reportIncompatibleMethodOverride]  torch overloads it
        self, closure: Callable[[], float | Tensor] | None = None
    ) -> float | Tensor | None:
        """Update every parameter that has a gradient; return what the closure returns."""
        if self._update is None:
            return super().step(closure)
        loss = call_closure(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["step"] += 1
                # Detached: of what it knows as a parameter, a compiler takes the shape for fixed.
                tensors = (p.detach(), p.grad, state["m"], state["v"])
                self._update(*tensors, *numbers(group, state["step"]))
        return loss


def numbers(group: dict[str, Any], step: int) -> list[Tensor]:
    """Return the last arguments of `update_in_place`.

    As tensors: if one changes, nothing has to be compiled anew.
    """
    beta1, beta2 = group["betas"]
    corrected_lr = group["lr"] * math.sqrt(1 - beta2**step) / (1 - beta1**step)
    kept = 1 - group["lr"] * group["weight_decay"]
    values = (1 - beta1, beta2, 1 - beta2, corrected_lr, group["eps"], kept)
    return [torch.tensor(value, dtype=torch.float64) for value in values]


def update_in_place(
    p: Tensor,
    grad: Tensor,
    m: Tensor,
    v: Tensor,
    new_share: Tensor,
    beta2: Tensor,
    new_square_share: Tensor,
    corrected_lr: Tensor,
    eps: Tensor,
    kept: Tensor,
) -> None:
    """Update a parameter and its moments: the lines of AdamW.step."""
    m.lerp_(grad, new_share.to(m.dtype))
    v.mul_(beta2).add_(grad * grad * new_square_share)
    p.mul_(kept).sub_(corrected_lr * m / (v.sqrt() + eps))
