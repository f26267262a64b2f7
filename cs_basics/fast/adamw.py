"""AdamW with a compiled update rule: one pass over each parameter and its moments.

The rule is `adamw_update` in cs_basics/optim.py, which alone holds the formula. Uncompiled it
is a dozen tensor operations, each of which reads and writes memory once the model exceeds the
caches; compiled it is one loop on a CPU (docs/performance.md) and one kernel on a GPU.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cs_basics.fast.compilation import compile_if_possible
from cs_basics.optim import AdamW, adamw_update, bias_corrected, call_closure


class FusedAdamW(AdamW):
    """AdamW with a compiled update; arguments, errors and state dict as in AdamW."""

    # PyTorch wraps these to exclude them from compilation, which imports the whole compiler:
    # 150 MB, wasted in a process that compiles nothing (native/ahead_of_time.py).
    add_param_group = inspect.unwrap(AdamW.add_param_group)
    zero_grad = inspect.unwrap(AdamW.zero_grad)
    state_dict = inspect.unwrap(AdamW.state_dict)
    load_state_dict = inspect.unwrap(AdamW.load_state_dict)

    _update: Callable[..., None] | None = None

    def use(self, update: Callable[..., None]) -> None:
        """Update with a given function that is equivalent to `update_in_place`."""
        self._update = update

    def compile(self, device: torch.device) -> None:
        """Compile the update for parameters of any shape; warn if that is impossible."""
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
                # Detached, because the compiler assumes a static shape for an nn.Parameter.
                tensors = (p.detach(), p.grad, state["m"], state["v"])
                self._update(*tensors, *numbers(group, state["step"]))
        return loss


def numbers(group: dict[str, Any], step: int) -> list[Tensor]:
    """Return the scalar arguments of `adamw_update` as tensors.

    As Python numbers they would be constants of the compiled code, and a new learning rate would
    compile it again.
    """
    beta1, beta2 = group["betas"]
    rate = bias_corrected(group["lr"], beta1, beta2, step)
    values = (beta1, beta2, rate, group["eps"], 1 - group["lr"] * group["weight_decay"])
    return [torch.tensor(value, dtype=torch.float64) for value in values]


def update_in_place(p: Tensor, grad: Tensor, m: Tensor, v: Tensor, *numbers: Tensor) -> None:
    """Apply `adamw_update` to a parameter and its moments in place."""
    for old, new in zip((p, m, v), adamw_update(p, grad, m, v, *numbers), strict=True):
        old.copy_(new)
