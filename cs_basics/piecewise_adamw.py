"""AdamW that reads memory once. The clear form: AdamW in optim.py.

The update of a weight is seven operations, and each reads and writes whole tensors: eighteen
transfers of every parameter between memory and processor, where seven would do (weight, gradient
and two means read, weight and means written). Here a tensor is cut into pieces that fit the cache,
and a piece gets all seven operations before the next one is fetched.

Tested by `make test ARGS=tests/project/test_piecewise_adamw.py`.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from cs_basics.optim import AdamW, adamw_update, evaluate_closure

PIECE = 65_536
"""Numbers in a piece: weight, gradient, means and the root in between are 1.25 MiB in float32."""


class PiecewiseAdamW(AdamW):
    """AdamW, computed piece by piece: same arguments, same state, same results.

    Tensors on a device other than the CPU, and those that are not contiguous, are one piece.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float | Tensor] | None = None) -> float | Tensor | None:
        """Update every parameter that has a gradient; return what the closure returns."""
        loss = evaluate_closure(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                m, v, step = self.advance(p)
                for piece in pieces_of(p, p.grad, m, v):
                    adamw_update(*piece, step, group)
        return loss


def pieces_of(
    p: Tensor, grad: Tensor, m: Tensor, v: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Yield the same piece of a weight, its gradient and its means, as views."""
    tensors = (p, grad, m, v)
    if p.device.type != "cpu" or not all(tensor.is_contiguous() for tensor in tensors):
        yield tensors
        return
    for begin in range(0, p.numel(), PIECE):
        end = begin + PIECE
        yield (
            p.view(-1)[begin:end],
            grad.view(-1)[begin:end],
            m.view(-1)[begin:end],
            v.view(-1)[begin:end],
        )
