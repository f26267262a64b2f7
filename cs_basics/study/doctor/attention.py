"""Checks of attention, by the two products that it is made of: q k', and its weights by v.

Between the two, by whatever code, the logarithm of the weights is q k' times the scale, and a
number for each row. So the scale is a slope, and no class or function has to be known by its name.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from cs_basics.study.doctor.report import Finding, Findings
from cs_basics.study.doctor.subject import Subject, undisturbed

PRODUCTS = {"matmul", "__matmul__", "bmm", "einsum"}
LEAST_SIZE = 4
"""Of heads that are looked at: of smaller ones no two scales are far apart."""
MOST_FLAT = 0.5
"""Scale times head size, which is sqrt(head size) where it is right, and 1 in muP."""
MOST, MOST_LARGE = 1.4, 0.6
"""Scale times the ratio of queries to keys, 0.5 at the most where it is right; the second one holds
where the scores are large."""
NORMED = 0.02
"""Spread of the lengths of queries, or keys, as a share: less where they are normed, and may have
any scale."""


@dataclass
class Attention:
    """Queries, keys and values that met in a forward pass."""

    q: Tensor
    k: Tensor
    axes: tuple[int, int]
    """The axis of each that their product sums over."""
    v: Tensor
    scale: float
    """What q k' is multiplied by before the softmax."""


class Products(TorchFunctionMode):
    """Sees the products that give, and then take, a matrix of (..., time, time)."""

    def __init__(self, time: int) -> None:
        super().__init__()
        self.time, self.found = time, list[Attention]()
        self._met: Any = None

    def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        kwargs = kwargs or {}
        out, name = func(*args, **kwargs), getattr(func, "__name__", "")
        if name == "scaled_dot_product_attention":
            q, k, v = args[:3]
            scale = kwargs.get("scale") or q.shape[-1] ** -0.5
            self.found.append(Attention(q, k, (-1, -1), v, scale))
        operands = [x for x in args if isinstance(x, Tensor)]
        if name not in PRODUCTS or len(operands) != 2:
            return out
        square = self.time, self.time
        for x, v in (operands, operands[::-1]):
            if self._met and x.shape[-2:] == square and (x >= 0).all():
                q, k, axes, products = self._met
                if ((x.float().sum(-1) - 1).abs() < 0.02).all() and x.shape == products.shape:
                    self.found.append(Attention(q, k, axes, v, _slope(products, x)))
                    self._met = None
                    return out
        if out.shape[-2:] == square:
            axes = (-1, -1) if name == "einsum" else (-1, -2)
            self._met = operands[0], operands[1], axes, out
        return out


def _slope(products: Tensor, weights: Tensor) -> float:
    """Fit log(weights) = slope * products + a number for each row; NaN if they are not so."""
    seen = weights > 1e-6
    x, y = (
        (t - (t * seen).sum(-1, keepdim=True) / seen.sum(-1, keepdim=True)) * seen
        for t in (products.float(), weights.float().clamp(min=1e-9).log())
    )
    both, size = (x * y).sum(), x.square().sum()
    is_softmax = both.square() > 0.98 * size * y.square().sum()
    return (both / size).item() if is_softmax else torch.nan


def scale(s: Subject) -> Findings:
    """Compare the scale of attention's scores with 1 / sqrt(head size)."""
    with undisturbed(s.bare), Products(s.time) as products:
        s.bare.eval()
        s.logits(s.inputs[:8])
    for one in products.found:
        if one.v.requires_grad and not (one.q.requires_grad and one.k.requires_grad):
            seen = "queries or keys of attention have no gradient, though its values do"
            yield Finding("no-gradient", seen)
            return
        size, c = one.q.shape[one.axes[0]], one.scale
        lengths = [
            x.detach().norm(dim=axis) for x, axis in zip((one.q, one.k), one.axes, strict=True)
        ]
        q, k = (x.float().square().mean().sqrt().item() for x in (one.q, one.k))
        is_normed = any((x.std() < NORMED * x.mean()).item() for x in lengths)
        most = MOST_LARGE if c * q * k * size**0.5 > 1 else MOST
        if size >= LEAST_SIZE and c * size < MOST_FLAT:
            seen = "the scores are so small that all positions weigh the same"
        elif size >= LEAST_SIZE and not is_normed and c * q > most * k > 0:
            seen = "the scores are so large that a query sees one position only"
        else:
            continue
        seen = f"attention multiplies q @ k.mT by {c:.3g}, with heads of size {size}: {seen}"
        yield Finding("architecture/scale", f"{seen}; 1 / sqrt({size}) = {size**-0.5:.3g}")
        return
