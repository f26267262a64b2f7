"""Operations, passes over memory and bytes of uncompiled norms, counted."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from lab.claims.measures.counting import kept_bytes, traffic
from lab.claims.measures.forms import KINDS, form
from lab.claims.rules import Figures

Norm = Callable[[Tensor], Tensor]
ROWS, D = 256, 512


def norm_of(text: str, x: Tensor, *, compiled: bool = False) -> tuple[Norm, list[Tensor]]:
    """Return a norm of the length, dtype and device of x, and what it learns.

    Args:
        text: A key of KINDS, whose gradients by the weights belong to its backward, or a formula.
        x: Input.
        compiled: Compile it.
    """
    learned: list[Tensor] = []
    norm: Norm
    if text in KINDS:
        norm = KINDS[text](x.shape[-1], 1e-5).to(x.device, x.dtype)
        learned += norm.parameters()
    else:
        norm = partial(form(text), gain=torch.ones(x.shape[-1], dtype=x.dtype), eps=1e-5)
    if compiled:
        torch.compiler.reset()
        norm = torch.compile(norm, fullgraph=True)
    return norm, learned


def calls_of(text: str, x: Tensor, *, compiled: bool = False) -> dict[str, Callable[[], object]]:
    """Return the forward pass and both passes of a norm as functions without arguments."""
    norm, learned = norm_of(text, x, compiled=compiled)
    ones = torch.ones_like(x)
    return {
        "forward": lambda: norm(x),
        "both": lambda: torch.autograd.grad(norm(x), [x, *learned], ones),
    }


def drawn(dtype: str) -> Tensor:
    """Return an x that requires a gradient."""
    return torch.randn(ROWS, D, dtype=getattr(torch, dtype), requires_grad=True)


def counted(
    _seed: int,
    norm: str,
    *,
    dtype: str = "float32",
    trains: bool = True,
) -> Figures:
    """Count what runs below autograd, forward and, if it trains, with the backward."""
    x = drawn(dtype)
    with torch.set_grad_enabled(trains):
        return {
            f"{direction}_{figure}": number
            for direction, call in calls_of(norm, x).items()
            if trains or direction == "forward"
            for figure, number in traffic(call, x).items()
        }


def kept(_seed: int, norm: str, *, dtype: str = "float32", compiled: bool = False) -> Figures:
    """Bytes that autograd keeps between forward and backward, for each number of x."""
    x = drawn(dtype)
    function, learned = norm_of(norm, x, compiled=compiled)
    function(x)
    return {"": round(kept_bytes(lambda: function(x), learned) / x.numel(), 3)}
