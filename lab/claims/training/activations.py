"""What the residual stream, the gains and the logits look like after training."""

import dataclasses
from collections.abc import Mapping
from functools import partial

import torch

from cs_basics.study.microscope.reading import Reading, read
from cs_basics.variants.model import Transformer
from lab.claims.claim import NOT_SEEN, Values, claim
from lab.claims.looking import gained_norms
from lab.claims.rounding.epsilon import replace_output
from lab.claims.trainings import Trained

KINDS = {"RMSNorm": {}, "LayerNorm": {"norm": "layernorm"}}


def reading_of(run: Trained) -> Reading:
    """Look at the trained model with the microscope."""
    return read(run.model(), run.sequences()[:64, :-1], run.result.steps)


@claim(
    "mean-share",
    lambda v: all(v[f"{name}, largest, %"].most < 20 for name in KINDS),
    trains=KINDS,
)
def mean_share(runs: Mapping[str, Trained]) -> Values:
    """Share of the mean in the length of what each norm reads, averaged over tokens, %."""
    values: dict[str, float] = {}
    for name, run in runs.items():
        reading = reading_of(run)
        values[f"{name}, largest, %"] = 100 * max(reading.mean_share)
        values["chance, %"] = 100 * reading.chance_share
    return values


@claim(
    "stream-grows-trained",
    lambda v: v["last norm"].least > v["first norm"].most or NOT_SEEN,
    trains={"RMSNorm": {}},
)
def stream_growth(runs: Mapping[str, Trained]) -> Values:
    """RMS of what the first and the last norm read."""
    (run,) = runs.values()
    sizes = reading_of(run).rms
    return {"first norm": sizes[0], "last norm": sizes[-1]}


@claim(
    "partial-spread-trained",
    lambda v: v["largest spread, %"].mean < 1.25 * v["independent values, %"].mean,
    trains={"RMSNorm": {}},
)
def partial_spread(runs: Mapping[str, Trained]) -> Values:
    """RMS of the first 1/16 of the coordinates over RMS of all: spread over tokens, worst norm."""
    (run,) = runs.values()
    reading = reading_of(run)
    spreads = zip(reading.partial_spread, reading.partial_ratio, strict=True)
    independent = 1 / (2 * run.config.model.d_model / 16) ** 0.5
    return {
        "largest spread, %": 100 * max(spread / mean for spread, mean in spreads),
        "independent values, %": 100 * independent,
    }


@claim(
    "gains-move",
    lambda v: abs(v["mean gain"].mean - 1) < 0.05 and v["spread (std)"].most < 0.05,
    trains={"RMSNorm": {}},
)
def gains(runs: Mapping[str, Trained]) -> Values:
    """Spread of the gains over all norms."""
    (run,) = runs.values()
    found = torch.cat([norm.weight.detach() for norm in gained_norms(run.model()).values()])
    return {"mean gain": found.mean().item(), "spread (std)": found.std().item()}


@claim(
    "eps-place-trained",
    lambda v: v["change of the loss"].least > 0.001 or NOT_SEEN,
    trains={"RMSNorm": {}},
)
def eps_moved(runs: Mapping[str, Trained]) -> Values:
    """Change of the loss when eps moves out of the root, and the smallest RMS that is met."""
    (run,) = runs.values()
    model, seen = run.model(), list[float]()
    before = run.loss_of(model)
    for norm in gained_norms(model).values():
        norm.register_forward_hook(partial(replace_output, seen))
    return {"change of the loss": abs(run.loss_of(model) - before), "smallest RMS met": min(seen)}


@claim(
    "other-order-trained",
    lambda v: (
        v["logits that differ, %"].mean == 0
        or (
            "true but for rounding: some likeliest tokens change"
            if v["likeliest tokens that differ, %"].most < 5
            else "false"
        )
    ),
    trains={"RMSNorm": {}},
)
def other_order(runs: Mapping[str, Trained]) -> Values:
    """Share of logits and likeliest tokens, in bfloat16, that Llama's order of cast changes."""
    (run,) = runs.values()
    model, ids = run.model(), run.sequences()[:64]
    other = Transformer(dataclasses.replace(run.config.model, norm="rmsnorm-llama"))
    other.load_state_dict(model.state_dict())
    before, after = (one.bfloat16()(ids[:, :-1]).detach() for one in (model, other))
    differ = (before != after).double().mean().item()
    choice = (before.argmax(-1) != after.argmax(-1)).double().mean().item()
    return {"logits that differ, %": 100 * differ, "likeliest tokens that differ, %": 100 * choice}


@claim(
    "logits-drift",
    lambda v: (
        (
            v["plain, trained"].least > v["plain, fresh"].most
            and v["QK-norm, trained"].most < v["plain, trained"].least
        )
        or (
            "true of the growth, with QK-norm too"
            if v["plain, trained"].least > v["plain, fresh"].most
            else NOT_SEEN
        )
    ),
    trains={"plain": {}, "QK-norm": {"qk_norm": True}},
)
def logits(runs: Mapping[str, Trained]) -> Values:
    """Largest logit of fresh and of trained models."""
    values: dict[str, float] = {}
    for name, run in runs.items():
        torch.manual_seed(run.config.run.seed)
        fresh = read(Transformer(run.config.model), run.sequences()[:64, :-1], step=0)
        values[f"{name}, fresh"] = max(fresh.score_largest)
        values[f"{name}, trained"] = max(reading_of(run).score_largest)
    return values
