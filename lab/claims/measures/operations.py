"""Operations, passes over memory and bytes of uncompiled norms, counted."""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from lab.claims.measures.counting import kept_bytes, traffic
from lab.claims.measures.forms import FORMS, KINDS
from lab.claims.rules import Figures

ROWS = 256


def calls_of(form: str, x: Tensor, *, compiled: bool = False) -> dict[str, Callable[[], object]]:
    """Return the forward pass and both passes of a norm as functions without arguments.

    Args:
        form: A key of KINDS, whose gradients by the weights belong to its backward, or of FORMS.
        x: Input that requires a gradient.
        compiled: Compile it.
    """
    ones, learned = torch.ones_like(x), [x]
    norm: Callable[[Tensor], Tensor]
    if form in KINDS:
        norm = KINDS[form](x.shape[-1], 1e-5).to(x.dtype).to(x.device)
        learned += norm.parameters()
    else:
        norm = partial(FORMS[form], gain=torch.ones(x.shape[-1], dtype=x.dtype), eps=1e-5)
    norm = torch.compile(norm, fullgraph=True) if compiled else norm
    return {
        "forward": lambda: norm(x),
        "both": lambda: torch.autograd.grad(norm(x), learned, ones),
    }


def counted(
    _seed: int, *, norms: Mapping[str, str], d: int = 512, dtype: str = "float32"
) -> Figures:
    """Count what runs below autograd, forward and with the backward."""
    figures: dict[str, float] = {}
    for name, form in norms.items():
        x = torch.randn(ROWS, d, dtype=getattr(torch, dtype), requires_grad=True)
        for direction, call in calls_of(form, x).items():
            found = traffic(call, x.numel())
            figures |= {
                f"{name}_{direction}_operations": found.num_operations,
                f"{name}_{direction}_over_x": found.num_whole,
                f"{name}_{direction}_reductions": found.num_reductions,
                f"{name}_{direction}_allocated": found.num_allocated,
                f"{name}_{direction}_passes": round(found.num_bytes / x.nbytes, 1),
            }
    return figures


@torch.no_grad()
def allocated(_seed: int, *, norms: Mapping[str, str], dtype: str) -> Figures:
    """Count results of x's size in a forward that are not written over something."""
    x = torch.randn(ROWS, 512, dtype=getattr(torch, dtype))
    gain = torch.ones(512, dtype=x.dtype)
    return {
        name: traffic(lambda form=form: FORMS[form](x, gain, 1e-5), x.numel()).num_allocated
        for name, form in norms.items()
    }


def kept(
    _seed: int, *, norms: Mapping[str, str], dtype: str = "float32", compiled: bool = False
) -> Figures:
    """Bytes that autograd keeps between forward and backward, for each number of x."""
    figures: dict[str, float] = {}
    for name, kind in norms.items():
        x = torch.randn(ROWS, 512, dtype=getattr(torch, dtype), requires_grad=True)
        norm = KINDS[kind](512).to(x.dtype)
        torch.compiler.reset()
        call = torch.compile(norm, fullgraph=True) if compiled else norm
        call(x)
        num_bytes = kept_bytes(lambda call=call, x=x: call(x), list(norm.parameters()))
        figures[name] = round(num_bytes / x.numel(), 3)
    return figures
