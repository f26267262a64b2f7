"""int8 for the outputs of a trained model's norms, with a single scale or one per feature."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from lab.claims.claim import NOT_SEEN, Claim, Values, true_if
from lab.claims.looking import changed_outputs
from lab.claims.sources import CIRCULATES, DETTMERS
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


FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "per tensor": per_tensor,
    "per feature": per_feature,
}


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


SHOWS = "int8 outputs of all norms after the small training"

CLAIMS = [
    Claim(
        name="int8-per-tensor",
        says="Behind a norm one int8 scale for all features ruins the model: features are coupled.",
        source=f"circulates; {DETTMERS} sees outlier features from 6.7 B parameters on",
        shows=f"growth of the validation loss, thousandths of a nat, {SHOWS}",
        trains=RUNS,
        measure=losses,
        verdict=lambda v: true_if(
            v["RMSNorm, per tensor"].least > 50,
            "not seen" if v["RMSNorm, per tensor"].most < 50 else "true of some seeds",
        ),
        cost="long",
        shown=("RMSNorm, per tensor", "LayerNorm, per tensor"),
    ),
    Claim(
        name="int8-per-feature",
        says="A scale for each feature loses less than one for all.",
        source=CIRCULATES,
        shows=f"the same; {SHOWS}",
        trains=RUNS,
        measure=losses,
        verdict=lambda v: true_if(
            all(v[f"{n}, per feature"].mean < v[f"{n}, per tensor"].mean for n in RUNS), NOT_SEEN
        ),
        cost="long",
    ),
    Claim(
        name="int8-rmsnorm-worse",
        says="RMSNorm quantises worse than LayerNorm, because it does not centre.",
        source=CIRCULATES,
        shows="the same, one scale for all",
        trains=RUNS,
        measure=losses,
        verdict=lambda v: true_if(
            v["RMSNorm, per tensor"].least > v["LayerNorm, per tensor"].most, NOT_SEEN
        ),
        cost="long",
        shown=("RMSNorm, per tensor", "LayerNorm, per tensor"),
    ),
    Claim(
        name="outlier-features",
        says="Norms leave outlier features: values 20 times as large as the rest.",
        source=f"circulates; {DETTMERS} for models from 6.7 B parameters on",
        shows="largest value / RMS of what comes out of any norm, after the small training",
        trains=RUNS,
        measure=outliers,
        verdict=lambda v: true_if(v["RMSNorm"].least > 20, NOT_SEEN),
        cost="long",
    ),
]
