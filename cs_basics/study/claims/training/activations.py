"""What the residual stream, the gains and the logits look like after training."""

from collections.abc import Mapping
from functools import partial

import torch
from einops import rearrange
from matplotlib.axes import Axes
from torch import Tensor, nn

from cs_basics.attention import CausalSelfAttention
from cs_basics.norms import RMSNorm
from cs_basics.study.claims.claim import NOT_SEEN, Claim, Intervals, Values, true_if
from cs_basics.study.claims.looking import inputs_of_norms, stream_norms
from cs_basics.study.claims.rounding.epsilon import replace_output
from cs_basics.study.claims.sources import CIRCULATES, GUPTA, HENRY, ZHANG
from cs_basics.study.claims.trainings import Trained
from cs_basics.transformer import TransformerLM
from cs_basics.variants.attention import GroupedQueryAttention
from cs_basics.variants.model import build_model
from cs_basics.variants.norms import LlamaRMSNorm

KINDS = {"RMSNorm": {}, "LayerNorm": {"norm": "layernorm"}}


def mean_share(runs: Mapping[str, Trained]) -> Values:
    """Share of the mean in what each norm reads: mean^2 / mean square, averaged over tokens, %."""
    values: dict[str, float] = {}
    for name, run in runs.items():
        ids = run.sequences()[:64, :-1]
        for place, x in inputs_of_norms(run.model(), ids).items():
            share = x.mean(-1).square() / x.square().mean(-1)
            values[f"{name}, {place}, %"] = 100 * share.mean().item()
        values[f"{name}, largest, %"] = max(v for k, v in values.items() if k.startswith(name))
    return values


def draw_share(axes: Axes, values: Intervals) -> None:
    """Draw the share of the mean from norm to norm."""
    for name in KINDS:
        found = [i for key, i in values.items() if key.startswith(name) and "largest" not in key]
        axes.plot(range(1, len(found) + 1), [i.mean for i in found], marker="o", label=name)
    axes.set_xlabel("norm (two in each block, then the last)")
    axes.set_ylabel("share of the mean in |x|^2, %")
    axes.legend()


def stream_growth(runs: Mapping[str, Trained]) -> Values:
    """RMS of what the first and the last norm read."""
    (run,) = runs.values()
    seen = list(inputs_of_norms(run.model(), run.sequences()[:64, :-1]).values())
    return {
        name: x.square().mean().sqrt().item()
        for name, x in (("first norm", seen[0]), ("last norm", seen[-1]))
    }


def partial_spread(runs: Mapping[str, Trained]) -> Values:
    """RMS of the first 1/16 of the coordinates over RMS of all: mean and spread, worst norm."""
    (run,) = runs.values()
    spreads: list[float] = []
    for x in inputs_of_norms(run.model(), run.sequences()[:64, :-1]).values():
        part = x[:, : x.shape[-1] // 16].square().mean(-1)
        ratio = (part / x.square().mean(-1)).sqrt()
        spreads.append((ratio.std() / ratio.mean()).item())
    independent = 1 / (2 * run.config.model.d_model / 16) ** 0.5
    return {"largest spread, %": 100 * max(spreads), "independent values, %": 100 * independent}


def gains(runs: Mapping[str, Trained]) -> Values:
    """Spread of the gains over all norms."""
    (run,) = runs.values()
    found = torch.cat([norm.weight.detach() for norm in stream_norms(run.model()).values()])
    return {"mean gain": found.mean().item(), "spread (std)": found.std().item()}


def eps_moved(runs: Mapping[str, Trained]) -> Values:
    """Change of the loss when eps moves out of the root, and the smallest RMS that is met."""
    (run,) = runs.values()
    model, seen = run.model(), list[float]()
    before = run.loss_of(model)
    for norm in stream_norms(model).values():
        norm.register_forward_hook(partial(replace_output, seen))
    return {"change of the loss": abs(run.loss_of(model) - before), "smallest RMS met": min(seen)}


def other_order(runs: Mapping[str, Trained]) -> Values:
    """Change of the loss in bfloat16 when Llama's order of cast and gain takes the book's place."""
    (run,) = runs.values()
    model = run.model().bfloat16()
    ids = run.sequences()[:64]
    before = model(ids[:, :-1]).detach()
    for norm in stream_norms(model).values():
        assert isinstance(norm, RMSNorm)
        norm.__class__ = LlamaRMSNorm
    after = model(ids[:, :-1]).detach()
    differ = (before != after).double().mean().item()
    choice = (before.argmax(-1) != after.argmax(-1)).double().mean().item()
    return {"logits that differ, %": 100 * differ, "likeliest tokens that differ, %": 100 * choice}


@torch.no_grad()
def largest_logit(model: TransformerLM, ids: Tensor) -> float:
    """Return the largest attention logit of all heads and visible pairs."""
    found: list[float] = []
    places = torch.arange(ids.shape[-1])

    def note(attention: nn.Module, inputs: tuple[Tensor], _output: Tensor) -> None:
        assert isinstance(attention, CausalSelfAttention)
        assert attention.rope is not None
        q, k = (
            rearrange(part(inputs[0]), "b seq (heads d) -> b heads seq d", d=attention.d_head)
            for part in (attention.q_proj, attention.k_proj)
        )
        if isinstance(attention, GroupedQueryAttention):
            q, k = attention.q_norm(q), attention.k_norm(k)
        q, k = attention.rope(q, places), attention.rope(k, places)
        logits = (q @ k.transpose(-2, -1) / attention.d_head**0.5).tril()
        found.append(logits.abs().max().item())

    hooks = [
        module.register_forward_hook(note)
        for module in model.modules()
        if isinstance(module, CausalSelfAttention)
    ]
    model(ids)
    for hook in hooks:
        hook.remove()
    return max(found)


def logits(runs: Mapping[str, Trained]) -> Values:
    """Largest logit of fresh and of trained models."""
    values: dict[str, float] = {}
    for name, run in runs.items():
        ids = run.sequences()[:64, :-1]
        torch.manual_seed(run.config.run.seed)
        values[f"{name}, fresh"] = largest_logit(build_model(run.config.model), ids)
        values[f"{name}, trained"] = largest_logit(run.model(), ids)
    return values


SHOWS = "after 400 updates of the small training"

CLAIMS = [
    Claim(
        name="mean-share",
        says="Activations have almost no mean, so removing it is redundant.",
        source=GUPTA,
        shows=f"mean^2 / mean square of what each norm reads, {SHOWS}; 1 / d = 0.8 % would be "
        "chance",
        trains=KINDS,
        measure=mean_share,
        verdict=lambda v: true_if(
            all(v[f"{name}, largest, %"].most < 5 for name in KINDS),
            "true of most norms"
            if sum(i.mean < 5 for k, i in v.items() if "largest" not in k) > len(v) // 2
            else "false",
        ),
        cost="long",
        shown=("RMSNorm, block 1, ln1, %", "RMSNorm, largest, %", "LayerNorm, largest, %"),
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
