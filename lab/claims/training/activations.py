"""What the residual stream, the gains and the logits look like after training."""

from collections.abc import Mapping
from functools import partial

import torch
from matplotlib.axes import Axes

from cs_basics.norms import RMSNorm
from cs_basics.study.microscope.reading import Reading, read
from cs_basics.variants.model import build_model
from cs_basics.variants.norms import LlamaRMSNorm
from lab.claims.claim import NOT_SEEN, Claim, Intervals, Values, true_if
from lab.claims.looking import gained_norms
from lab.claims.rounding.epsilon import replace_output
from lab.claims.sources import CIRCULATES, GUPTA, HENRY, ZHANG
from lab.claims.trainings import Trained

KINDS = {"RMSNorm": {}, "LayerNorm": {"norm": "layernorm"}}


def reading_of(run: Trained) -> Reading:
    """Look at the trained model with the microscope."""
    return read(run.model(), run.sequences()[:64, :-1], run.result.steps)


def mean_share(runs: Mapping[str, Trained]) -> Values:
    """Share of the mean in the length of what each norm reads, averaged over tokens, %."""
    values: dict[str, float] = {}
    for name, run in runs.items():
        reading = reading_of(run)
        for norm, share in zip(reading.norms, reading.mean_share, strict=True):
            values[f"{name}, {norm}, %"] = 100 * share
        values[f"{name}, largest, %"] = 100 * max(reading.mean_share)
        values["chance, %"] = 100 * reading.chance_share
    return values


def draw_share(axes: Axes, values: Intervals) -> None:
    """Draw the share of the mean from norm to norm."""
    for name in KINDS:
        found = [i for key, i in values.items() if key.startswith(name) and "largest" not in key]
        axes.plot(range(1, len(found) + 1), [i.mean for i in found], marker="o", label=name)
    axes.set_xlabel("norm (two in each block, then the last)")
    axes.set_ylabel("share of the mean in |x|, %")
    axes.legend()


def stream_growth(runs: Mapping[str, Trained]) -> Values:
    """RMS of what the first and the last norm read."""
    (run,) = runs.values()
    sizes = reading_of(run).rms
    return {"first norm": sizes[0], "last norm": sizes[-1]}


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


def gains(runs: Mapping[str, Trained]) -> Values:
    """Spread of the gains over all norms."""
    (run,) = runs.values()
    found = torch.cat([norm.weight.detach() for norm in gained_norms(run.model()).values()])
    return {"mean gain": found.mean().item(), "spread (std)": found.std().item()}


def eps_moved(runs: Mapping[str, Trained]) -> Values:
    """Change of the loss when eps moves out of the root, and the smallest RMS that is met."""
    (run,) = runs.values()
    model, seen = run.model(), list[float]()
    before = run.loss_of(model)
    for norm in gained_norms(model).values():
        norm.register_forward_hook(partial(replace_output, seen))
    return {"change of the loss": abs(run.loss_of(model) - before), "smallest RMS met": min(seen)}


def other_order(runs: Mapping[str, Trained]) -> Values:
    """Share of logits and likeliest tokens, in bfloat16, that Llama's order of cast changes."""
    (run,) = runs.values()
    model = run.model().bfloat16()
    ids = run.sequences()[:64]
    before = model(ids[:, :-1]).detach()
    for norm in gained_norms(model).values():
        assert isinstance(norm, RMSNorm)
        norm.__class__ = LlamaRMSNorm
    after = model(ids[:, :-1]).detach()
    differ = (before != after).double().mean().item()
    choice = (before.argmax(-1) != after.argmax(-1)).double().mean().item()
    return {"logits that differ, %": 100 * differ, "likeliest tokens that differ, %": 100 * choice}


def logits(runs: Mapping[str, Trained]) -> Values:
    """Largest logit of fresh and of trained models."""
    values: dict[str, float] = {}
    for name, run in runs.items():
        torch.manual_seed(run.config.run.seed)
        fresh = read(build_model(run.config.model), run.sequences()[:64, :-1], step=0)
        values[f"{name}, fresh"] = max(fresh.score_largest)
        values[f"{name}, trained"] = max(reading_of(run).score_largest)
    return values


SHOWS = "after 400 updates of the small training"

CLAIMS = [
    Claim(
        name="mean-share",
        says="Activations have almost no mean, so removing it is redundant.",
        source=GUPTA,
        shows="|cos| of the angle between what a norm reads and (1, ..., 1), mean over tokens, the "
        f"norm with the largest share, {SHOWS}; true: below 20 %",
        trains=KINDS,
        measure=mean_share,
        verdict=lambda v: true_if(all(v[f"{name}, largest, %"].most < 20 for name in KINDS)),
        cost="long",
        shown=("RMSNorm, largest, %", "LayerNorm, largest, %", "chance, %"),
        draw=draw_share,
    ),
    Claim(
        name="stream-grows-trained",
        says="Training makes the residual stream grow from the first norm to the last.",
        source=CIRCULATES,
        shows=f"RMS of what the first and the last norm read, {SHOWS}",
        trains={"RMSNorm": {}},
        measure=stream_growth,
        verdict=lambda v: true_if(v["last norm"].least > v["first norm"].most, NOT_SEEN),
        cost="long",
    ),
    Claim(
        name="partial-spread-trained",
        says="In a trained model the partial RMS is as exact as with independent values.",
        source=f"the premise of {ZHANG}, sec. 5",
        shows=f"spread of partial RMS / RMS over tokens, worst norm, 8 of 128 coordinates, {SHOWS}",
        trains={"RMSNorm": {}},
        measure=partial_spread,
        verdict=lambda v: true_if(
            v["largest spread, %"].mean < 1.25 * v["independent values, %"].mean
        ),
        cost="long",
    ),
    Claim(
        name="gains-move",
        says="The gains hardly move: a norm without gain would do.",
        source=CIRCULATES,
        shows=f"mean and spread of all gains, {SHOWS}; they start at 1",
        trains={"RMSNorm": {}},
        measure=gains,
        verdict=lambda v: true_if(
            abs(v["mean gain"].mean - 1) < 0.05 and v["spread (std)"].most < 0.05
        ),
        cost="long",
    ),
    Claim(
        name="eps-place-trained",
        says="In a trained model the place of eps matters.",
        source=CIRCULATES,
        shows=f"change of the loss (nats) when eps = 1e-5 moves out of the root, {SHOWS}",
        trains={"RMSNorm": {}},
        measure=eps_moved,
        verdict=lambda v: true_if(v["change of the loss"].least > 1e-3, NOT_SEEN),
        cost="long",
    ),
    Claim(
        name="other-order-trained",
        says="Weights trained with one order of cast and gain may be run with the other.",
        source=CIRCULATES,
        shows=f"bfloat16 logits and likeliest tokens that change, {SHOWS}",
        trains={"RMSNorm": {}},
        measure=other_order,
        verdict=lambda v: true_if(
            v["logits that differ, %"].mean == 0,
            "true but for rounding: some likeliest tokens change"
            if v["likeliest tokens that differ, %"].most < 5
            else "false",
        ),
        cost="long",
    ),
    Claim(
        name="logits-drift",
        says="Attention logits grow during training; QK-norm stops that.",
        source=f"circulates; {HENRY} for the bound",
        shows=f"largest attention logit of fresh models and {SHOWS}",
        trains={"plain": {}, "QK-norm": {"qk_norm": True}},
        measure=logits,
        verdict=lambda v: true_if(
            v["plain, trained"].least > v["plain, fresh"].most
            and v["QK-norm, trained"].most < v["plain, trained"].least,
            "true of the growth, with QK-norm too"
            if v["plain, trained"].least > v["plain, fresh"].most
            else NOT_SEEN,
        ),
        cost="long",
    ),
]
