"""Checks of attention, by the two products that it is made of: q k', and its weights by v.

Between the two, by whatever code, the logarithm of the weights is q k' times the scale, and a
number for each row. So the scale is a slope, and no class or function has to be known by its name.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from cs_basics.study.doctor.finding import Finding
from cs_basics.study.doctor.subject import Subject, undisturbed
from cs_basics.study.doctor.watch import Watch

PRODUCTS = {"matmul", "__matmul__", "bmm", "einsum"}
ALONE = 0.99
"""The weight of a place beside which a query sees no other."""


class Attention:
    """Queries, keys and values that met in a forward pass, and the weights between them."""

    def __init__(self, q: Tensor, k: Tensor, axes: tuple[int, int]) -> None:
        self.q, self.k, self.size = q, k, q.shape[axes[0]]
        self.weights = self.v = q
        self.scale: float | None = None
        lengths = q.detach().norm(dim=axes[0]), k.detach().norm(dim=axes[1])
        self.is_normed = any(bool(x.std() < 0.02 * x.mean()) for x in lengths)


class Products(TorchFunctionMode):
    """Sees the products that give, and then take, a matrix of (..., time, time)."""

    def __init__(self, time: int) -> None:
        super().__init__()
        self.time, self.found = time, list[Attention]()
        self._met: tuple[Attention, Tensor] | None = None

    def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        kwargs = kwargs or {}
        out, name = func(*args, **kwargs), getattr(func, "__name__", "")
        if name == "scaled_dot_product_attention":
            q, k, v, *rest = args
            if q.shape[-2] == k.shape[-2] == self.time:
                one = Attention(q, k, (-1, -1))
                places = torch.eye(self.time).to(q).expand(*k.shape[:-1], self.time)
                one.v, one.weights = v, func(q, k, places, *rest, **kwargs)
                one.scale = kwargs.get("scale") or one.size**-0.5
                self.found.append(one)
        elif name in PRODUCTS:
            operands = [x for x in args if isinstance(x, Tensor)]
            if len(operands) == 2:
                self._note(operands, args[0] if name == "einsum" else "id,dj->ij", out)
        return out

    def _note(self, operands: list[Tensor], equation: str, out: Tensor) -> None:
        for i, x in enumerate(operands):
            if self._met and x.shape[-2:] == (self.time, self.time) and _are_weights(x):
                one, products = self._met
                if x.numel() == products.numel():
                    one.weights, one.v = x, operands[1 - i]
                    one.scale = _slope(products.float(), x.float().reshape(products.shape))
                    self.found.append(one)
                    self._met = None
                    return
        if out.shape[-2:] == (self.time, self.time):
            q, k, *to = equation.replace(" ", "").replace("->", ",").split(",")
            summed = next((x for x in q if x in k and x not in "".join(to)), q[-1])
            axes = q.index(summed) - len(q), k.index(summed) - len(k)
            self._met = Attention(operands[0], operands[1], axes), out


def _are_weights(x: Tensor) -> bool:
    return bool((x >= 0).all() and ((x.float().sum(-1) - 1).abs() < 0.02).all())


def _slope(products: Tensor, weights: Tensor) -> float | None:
    """Fit log(weights) = slope * products + a number for each row; None if they are not so."""
    seen = weights > 1e-6
    x, y = (
        (t - (t * seen).sum(-1, keepdim=True) / seen.sum(-1, keepdim=True)) * seen
        for t in (products, weights.clamp(min=1e-9).log())
    )
    both = (x * y).sum()
    if not both.square() > 0.98 * x.square().sum() * y.square().sum():
        return None
    return (both / x.square().sum()).item()


def attentions(s: Subject) -> list[Attention]:
    """Return what a forward pass of the model, in evaluation mode, computes by attention."""
    with undisturbed(s.bare), Products(s.inputs.shape[1]) as products:
        s.bare.eval()
        s.logits(s.inputs[:8])
    return products.found


def scale(s: Subject) -> Iterator[Finding]:
    """Compare the scale of attention's scores with 1 / sqrt(head size)."""
    for one in attentions(s):
        if one.v.requires_grad and not (one.q.requires_grad and one.k.requires_grad):
            yield Finding(
                "no-gradient",
                "queries or keys of attention have no gradient, though its values do",
                "a gradient for each: what has none is not trained",
                "print(q.requires_grad, k.requires_grad, v.requires_grad) before the scores",
            )
            return
        if one.scale is None or one.size < 4:
            continue
        right, seen, c = one.size**-0.5, None, one.scale
        width = one.q.numel() // (one.q.shape[0] * s.inputs.shape[1])
        q, k = _rms(one.q), _rms(one.k)
        ratio = q / k
        if c * one.size < 0.5:
            seen = "scores, and with them differences between places, vanish"
        elif width > one.size and abs(c * width**0.5 - 1) < 0.02:
            seen = f"that is the root of the width, {width}"
        elif one.is_normed or not ratio > 0:
            continue
        elif abs(c / right - 1) < 0.05 and 0.75 < ratio / right < 1.33 and one.size >= 8:
            seen = "and the queries were scaled before"
        elif c * ratio > (0.6 if c * q * k * one.size**0.5 > 1 or _is_raw(s, one) else 1.4):
            seen = "scores are too large, so that a query sees one place alone"
        if seen:
            yield Finding(
                "architecture",
                f"attention multiplies q k' by {c:.3g} at a head size of {one.size}: {seen}",
                f"1 / sqrt({one.size}) = {right:.3g}, which gives scores the variance 1",
                "scores = q @ k.mT / math.sqrt(q.shape[-1])",
            )
            return


def _rms(x: Tensor) -> float:
    return x.float().square().mean().sqrt().item()


def _is_raw(s: Subject, one: Attention) -> bool:
    """Tell whether queries and keys are as long as what modules returned, alone or in one."""
    lengths = [x.float().square().sum().item() for x in (one.q, one.k, one.v)]
    outputs = [call.output.float().square().sum().item() for call in s.calls(s.inputs[:8])]
    known = [any(abs(out - x) < 1e-3 * x for out in outputs) for x in (*lengths, sum(lengths))]
    return known[3] or (known[0] and known[1])


def collapsed(s: Watch) -> Iterator[Finding]:
    """See whether queries still look at several places after the last update."""
    found = [one.weights[..., 4:, :].amax(-1) for one in attentions(s)]
    shares = [(largest > ALONE).float().mean().item() for largest in found if largest.numel()]
    if shares and min(shares) > 0.9:
        yield Finding(
            "attention-collapsed",
            f"{min(shares):.0%} of the queries or more, in each layer, look at one place alone",
            "weights that spread over the past: scores that grow without bound have no gradient",
            "a lower rate, or norms of queries and keys",
        )
