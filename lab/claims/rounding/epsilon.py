"""eps inside the root and outside, values and gradients."""

from collections.abc import Callable
from functools import partial

import torch
from matplotlib.axes import Axes
from torch import Tensor, nn

from cs_basics.norms import RMSNorm
from cs_basics.run.evaluation import make_loss_function
from cs_basics.run.presets import PRESETS
from cs_basics.variants.model import build_model
from lab.claims.claim import NOT_SEEN, Claim, Intervals, Values, true_if
from lab.claims.draws import normal
from lab.claims.sources import CIRCULATES

D, EPS = 512, 1e-5
SIZES = tuple(10.0**power for power in range(-8, 2))


def inside(x: Tensor) -> Tensor:
    """Return x / sqrt(mean(x^2) + eps)."""
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + EPS)


def outside(x: Tensor, eps: float = EPS) -> Tensor:
    """Return x / (sqrt(mean(x^2)) + eps), the other form that circulates."""
    return x / (x.square().mean(dim=-1, keepdim=True).sqrt() + eps)


FORMS: dict[str, Callable[[Tensor], Tensor]] = {"inside": inside, "outside": outside}


def output_size(seed: int) -> Values:
    """RMS of what comes out, for a vector of RMS 0.001."""
    x = unit(seed) * 1e-3
    return {f"eps {name}": rms(form(x)) for name, form in FORMS.items()}


def gradient_size(seed: int) -> Values:
    """Largest stretching of a gradient on its way through, by the RMS of x."""
    values: dict[str, float] = {}
    for name, form in FORMS.items():
        for size in SIZES:
            x = (unit(seed) * size).requires_grad_()
            cotangent = normal(seed + 1, D)
            (found,) = torch.autograd.grad(form(x), x, cotangent)
            values[f"eps {name}, RMS {size:g}"] = (found.norm() / cotangent.norm()).item()
    return values


def at_zero(_seed: int) -> Values:
    """Share of the gradient at the zero vector that is a number, not NaN."""
    values: dict[str, float] = {}
    for name, form in FORMS.items():
        x = torch.zeros(D, dtype=torch.float64, requires_grad=True)
        (found,) = torch.autograd.grad(form(x).sum(), x)
        values[f"finite gradients, eps {name}, %"] = 100 * found.isfinite().double().mean().item()
    return values


def in_a_model(seed: int) -> Values:
    """Loss of a fresh model with eps inside, and with it moved outside."""
    plain = {"tie_embeddings": False, "head_bias": False, "value_residual": False}
    config = PRESETS["own-text"][1].replace(**plain).model
    torch.manual_seed(seed)
    model, seen = build_model(config), list[float]()
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


def rms(x: Tensor) -> float:
    """Return the root mean square."""
    return x.square().mean().sqrt().item()


def draw_gradients(axes: Axes, values: Intervals) -> None:
    """Draw the stretching against the size of x."""
    for name in FORMS:
        axes.loglog(SIZES, [values[f"eps {name}, RMS {s:g}"].mean for s in SIZES], label=name)
    axes.set_xlabel("RMS of x")
    axes.set_ylabel("|gradient of x| / |gradient of the output|")
    axes.legend(title=f"eps = {EPS:g}")


CLAIMS = [
    Claim(
        name="eps-place-values",
        says="Whether eps stands inside or outside the root matters.",
        source=CIRCULATES,
        shows="RMS of the output for a vector of RMS 0.001, eps = 1e-5, gain 1",
        measure=output_size,
        verdict=lambda v: (
            "true where RMS(x) is not far above sqrt(eps)"
            if v["eps outside"].least > 2 * v["eps inside"].most
            else NOT_SEEN
        ),
    ),
    Claim(
        name="eps-place-in-a-model",
        says="In a model the place of eps matters.",
        source=CIRCULATES,
        shows="change of a fresh own-text model's loss (nats) when eps = 1e-5 moves outside",
        measure=in_a_model,
        verdict=lambda v: true_if(v["change of the loss"].least > 1e-3, NOT_SEEN),
    ),
    Claim(
        name="eps-place-gradients",
        says="Near zero, eps outside the root lets gradients grow to 1 / eps, inside to "
        "1 / sqrt(eps).",
        source=CIRCULATES,
        shows="factor by which a random gradient grows, eps = 1e-5: bounds 100,000 and 316",
        measure=gradient_size,
        verdict=lambda v: true_if(
            abs(v["eps outside, RMS 1e-08"].mean * EPS - 1) < 0.02
            and abs(v["eps inside, RMS 1e-08"].mean * EPS**0.5 - 1) < 0.02
        ),
        shown=("eps inside, RMS 1e-08", "eps outside, RMS 1e-08"),
        draw=draw_gradients,
    ),
    Claim(
        name="eps-place-at-zero",
        says="Both places of eps are safe for a zero vector.",
        source=CIRCULATES,
        shows="gradients at x = 0 that are numbers (outside, the root's slope at 0 is infinite)",
        measure=at_zero,
        verdict=lambda v: true_if(all(interval.mean == 100 for interval in v.values())),
        is_exact=True,
    ),
]
