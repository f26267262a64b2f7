"""int8 for the outputs of a trained model's norms, with a single scale or one per feature."""

from collections.abc import Mapping

import torch
from torch import Tensor

from lab.claims.claim import NOT_SEEN, Values, claim
from lab.claims.looking import changed_outputs
from lab.claims.trainings import Trained

STEPS = 127
RUNS = {"RMSNorm": {}, "LayerNorm": {"norm": "layernorm"}}


def per_tensor(x: Tensor) -> Tensor:
    """Round to 255 steps of one size for all of x."""
    return rounded(x, x.abs().max() / STEPS)


def per_feature(x: Tensor) -> Tensor:
    """Round to 255 steps of a size for each feature."""
    return rounded(x, x.abs().amax(dim=tuple(range(x.ndim - 1)), keepdim=True) / STEPS)


def rounded(x: Tensor, step: Tensor) -> Tensor:
    """Return the nearest multiples of the step."""
    return (x / step).round().clamp(-STEPS, STEPS) * step


FORMS = {"per tensor": per_tensor, "per feature": per_feature}


@claim(
    "int8-per-tensor",
    lambda v: (
        v["RMSNorm, per tensor"].least > 50
        or ("not seen" if v["RMSNorm, per tensor"].most < 50 else "true of some seeds")
    ),
    trains=RUNS,
)
@claim(
    "int8-per-feature",
    lambda v: (
        all(v[f"{n}, per feature"].mean < v[f"{n}, per tensor"].mean for n in RUNS) or NOT_SEEN
    ),
    trains=RUNS,
)
@claim(
    "int8-rmsnorm-worse",
    lambda v: v["RMSNorm, per tensor"].least > v["LayerNorm, per tensor"].most or NOT_SEEN,
    trains=RUNS,
)
def losses(runs: Mapping[str, Trained]) -> Values:
    """How much the loss grows, in thousandths of a nat."""
    values: dict[str, float] = {}
    for name, run in runs.items():
        model = run.model()
        plain = run.loss_of(model)
        for form, change in FORMS.items():
            with changed_outputs(model, change):
                values[f"{name}, {form}"] = 1000 * (run.loss_of(model) - plain)
    return values


@claim("outlier-features", lambda v: v["RMSNorm"].least > 20 or NOT_SEEN, trains=RUNS)
@torch.no_grad()
def outliers(runs: Mapping[str, Trained]) -> Values:
    """Largest value over RMS of what comes out of a norm, worst norm; normal values: about 5."""
    values: dict[str, float] = {}
    for name, run in runs.items():
        ratios: list[float] = []

        def note(y: Tensor, ratios: list[float] = ratios) -> Tensor:
            ratios.append((y.abs().max() / y.square().mean().sqrt()).item())
            return y

        model = run.model()
        with changed_outputs(model, note):
            model(run.sequences()[:64, :-1])
        values[name] = max(ratios)
    return values
