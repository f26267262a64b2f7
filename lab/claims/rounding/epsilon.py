"""eps inside the root and outside, values and gradients."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from cs_basics.norms import RMSNorm
from cs_basics.run.evaluation import make_loss_function
from cs_basics.run.presets import PRESETS
from cs_basics.variants.model import Transformer
from lab.claims.claim import NOT_SEEN, Values, claim
from lab.claims.draws import normal, rms

D, EPS = 512, 1e-5


def inside(x: Tensor) -> Tensor:
    """Return x / sqrt(mean(x^2) + eps)."""
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + EPS)


def outside(x: Tensor, eps: float = EPS) -> Tensor:
    """Return x / (sqrt(mean(x^2)) + eps), the other form that circulates."""
    return x / (x.square().mean(dim=-1, keepdim=True).sqrt() + eps)


FORMS: dict[str, Callable[[Tensor], Tensor]] = {"inside": inside, "outside": outside}


@claim(
    "eps-place-values",
    lambda v: (
        "true where RMS(x) is not far above sqrt(eps)"
        if v["eps outside"].least > 2 * v["eps inside"].most
        else NOT_SEEN
    ),
)
def output_size(seed: int) -> Values:
    """RMS of what comes out, for a vector of RMS 0.001."""
    x = unit(seed) * 1e-3
    return {f"eps {name}": rms(form(x)) for name, form in FORMS.items()}


@claim(
    "eps-place-gradients",
    lambda v: (
        abs(v["eps outside, RMS 1e-08"].mean * EPS - 1) < 0.02
        and abs(v["eps inside, RMS 1e-08"].mean * EPS**0.5 - 1) < 0.02
    ),
)
def gradient_size(seed: int) -> Values:
    """How much a gradient grows on its way through, for a vector of RMS 1e-8."""
    values: dict[str, float] = {}
    for name, form in FORMS.items():
        x, cotangent = (unit(seed) * 1e-8).requires_grad_(), normal(seed + 1, D)
        (found,) = torch.autograd.grad(form(x), x, cotangent)
        values[f"eps {name}, RMS 1e-08"] = (found.norm() / cotangent.norm()).item()
    return values


@claim("eps-place-at-zero", lambda v: all(interval.mean == 100 for interval in v.values()))
def at_zero(_seed: int) -> Values:
    """Share of the gradient at the zero vector that is a number, not NaN."""
    values: dict[str, float] = {}
    for name, form in FORMS.items():
        x = torch.zeros(D, dtype=torch.float64, requires_grad=True)
        (found,) = torch.autograd.grad(form(x).sum(), x)
        values[f"finite gradients, eps {name}, %"] = 100 * found.isfinite().double().mean().item()
    return values


@claim("eps-place-in-a-model", lambda v: v["change of the loss"].least > 0.001 or NOT_SEEN)
def in_a_model(seed: int) -> Values:
    """Loss of a fresh model with eps inside, and with it moved outside."""
    plain = {"tie_embeddings": False, "head_bias": False, "value_residual": False}
    config = PRESETS["own-text"][1].replace(**plain).model
    torch.manual_seed(seed)
    model, seen = Transformer(config), list[float]()
    ids = torch.randint(config.vocab_size, (2, config.context_length + 1))
    loss_of = make_loss_function(model, torch.float32)
    with torch.no_grad():
        before = loss_of(ids[:, :-1], ids[:, 1:]).item()
        for module in model.modules():
            if isinstance(module, RMSNorm):
                module.register_forward_hook(partial(replace_output, seen))
        after = loss_of(ids[:, :-1], ids[:, 1:]).item()
    return {"smallest RMS met": min(seen), "change of the loss": abs(after - before)}


def replace_output(seen: list[float], norm: nn.Module, inputs: tuple[Tensor], _: Tensor) -> Tensor:
    """Return the norm with eps outside, and note the smallest RMS that it meets."""
    assert isinstance(norm, RMSNorm)
    seen.append(inputs[0].square().mean(dim=-1).sqrt().min().item())
    return outside(inputs[0], norm.eps) * norm.weight


def unit(seed: int) -> Tensor:
    """Return a vector of RMS 1."""
    x = normal(seed, D)
    return x / rms(x)
