"""Checks of attention, by the two products that it is made of: q k', and its weights by v.

Between the two, by whatever code, the logarithm of the weights is q k' times the scale, and a
number for each row. So the scale is a slope, and no class or function has to be known by its name.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from cs_basics.study.doctor.finding import Finding, Findings
from cs_basics.study.doctor.subject import Subject, undisturbed

PRODUCTS = {"matmul", "__matmul__", "bmm", "einsum"}
ALONE = 0.99
"""The weight of a place beside which a query sees no other."""
MOST_ALONE = 0.9
"""Share of queries that see one position; 0.3 in a trained model."""
LEAST_SIZE = 4
"""Of heads that are looked at: of smaller ones no two scales are far apart."""
MOST_FLAT = 0.5
"""Scale times head size, which is sqrt(head size) where it is right, and 1 in muP."""
MOST, MOST_SURE = 1.4, 0.6
"""Scale times the ratio of queries to keys, 0.5 at the most where it is right; the second one holds
where the scores are large, or queries and keys are what a matrix gave."""
NORMED = 0.02
"""Spread of the lengths of queries, or keys, as a share: less where they are normed, and may have
any scale."""


@dataclass
class Attention:
    """Queries, keys and values that met in a forward pass, and the weights between them."""

    q: Tensor
    k: Tensor
    axes: tuple[int, int]
    """The axis of each that their product sums over."""
    v: Tensor
    weights: Tensor
    scale: float | None
    """What q k' is multiplied by, if the weights are a softmax of that."""


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
            q, k, v, *rest = args
            if q.shape[-2] == k.shape[-2] == self.time:
                places = torch.eye(self.time).to(q).expand(*k.shape[:-1], self.time)
                weights = func(q, k, places, *rest, **kwargs)
                scale = kwargs.get("scale") or q.shape[-1] ** -0.5
                self.found.append(Attention(q, k, (-1, -1), v, weights, scale))
        operands = [x for x in args if isinstance(x, Tensor)]
        if name not in PRODUCTS or len(operands) != 2:
            return out
        square = self.time, self.time
        for x, v in (operands, operands[::-1]):
            if self._met and x.shape[-2:] == square and (x >= 0).all():
                q, k, axes, products = self._met
                are_weights = ((x.float().sum(-1) - 1).abs() < 0.02).all()
                if are_weights and x.numel() == products.numel():
                    scale = _slope(products.float(), x.float().reshape(products.shape))
                    self.found.append(Attention(q, k, axes, v, x, scale))
                    self._met = None
                    return out
        if out.shape[-2:] == square:
            equation = args[0] if name == "einsum" else "id,dj->ij"
            q, k, *to = equation.replace(" ", "").replace("->", ",").split(",")
            summed = next((x for x in q if x in k and x not in "".join(to)), q[-1])
            axes = q.index(summed) - len(q), k.index(summed) - len(k)
            self._met = operands[0], operands[1], axes, out
        return out


def _slope(products: Tensor, weights: Tensor) -> float | None:
    """Fit log(weights) = slope * products + a number for each row; None if they are not so."""
    seen = weights > 1e-6
    x, y = (
        (t - (t * seen).sum(-1, keepdim=True) / seen.sum(-1, keepdim=True)) * seen
        for t in (products, weights.clamp(min=1e-9).log())
    )
    both, size = (x * y).sum(), x.square().sum()
    if not both.square() > 0.98 * size * y.square().sum():
        return None
    return (both / size).item()


def attentions(s: Subject) -> list[Attention]:
    """Return what a forward pass of the model, in evaluation mode, computes by attention."""
    with undisturbed(s.bare), Products(s.time) as products:
        s.bare.eval()
        s.logits(s.inputs[:8])
    return products.found


def scale(s: Subject) -> Findings:
    """Compare the scale of attention's scores with 1 / sqrt(head size)."""
    for one in attentions(s):
        if one.v.requires_grad and not (one.q.requires_grad and one.k.requires_grad):
            seen = "queries or keys of attention have no gradient, though its values do"
            yield Finding("no-gradient", seen)
            return
        size, c = one.q.shape[one.axes[0]], one.scale
        if c is None or size < LEAST_SIZE:
            continue
        both, right = zip((one.q, one.k), one.axes, strict=True), size**-0.5
        lengths = [x.detach().norm(dim=axis) for x, axis in both]
        width = one.q.numel() // (one.q.shape[0] * s.time)
        q, k = (x.float().square().mean().sqrt().item() for x in (one.q, one.k))
        ratio = q / (k or 1e30)
        if c * size < MOST_FLAT:
            seen = "the scores are so small that all positions weigh the same"
        elif width > size and abs(c * width**0.5 - 1) < 0.02:
            seen = f"that is 1 / sqrt({width}), of all heads together"
        elif not ratio > 0 or any((x.std() < NORMED * x.mean()).item() for x in lengths):
            continue
        elif abs(c / right - 1) < 0.05 and 0.75 < ratio / right < 1.33 and size >= 2 * LEAST_SIZE:
            seen = "but the queries were scaled already"
        elif c * ratio > (MOST_SURE if c * q * k * size**0.5 > 1 or _is_raw(s, one) else MOST):
            seen = "the scores are so large that a query sees one position only"
        else:
            continue
        seen = f"attention multiplies q @ k.mT by {c:.3g}, with heads of size {size}: {seen}"
        yield Finding("architecture/scale", f"{seen}; 1 / sqrt({size}) = {right:.3g}")
        return


def _is_raw(s: Subject, one: Attention) -> bool:
    """Tell whether queries and keys are as long as what modules returned, alone or in one."""
    outputs = [call.output for call in s.calls(s.inputs[:8])]
    q, k, v, *sizes = (x.float().square().sum().item() for x in (one.q, one.k, one.v, *outputs))
    known = [any(abs(size - x) < 1e-3 * x for size in sizes) for x in (q, k, q + k + v)]
    return known[2] or all(known[:2])


def collapsed(s: Subject) -> Findings:
    """See whether queries still look at several places after the last update."""
    found = [one.weights[..., 4:, :].amax(-1) for one in attentions(s)]
    shares = [(largest > ALONE).float().mean().item() for largest in found if largest.numel()]
    if shares and min(shares) > MOST_ALONE:
        seen = f"at least {min(shares):.0%} of the queries in every layer see one position only"
        yield Finding("attention-collapsed", seen)
