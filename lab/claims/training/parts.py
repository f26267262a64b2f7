"""Small trainings with parts of LayerNorm, other feed-forward parts and norms of the heads."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from cs_basics.transformer import TransformerBlock
from cs_basics.variants.feed_forward import FeedForward
from lab.claims.claim import FALSE, NOT_SEEN, Claim, Intervals, Values, true_if
from lab.claims.sources import CIRCULATES, DAO_GU, SHAZEER
from lab.claims.training.quality import (
    D_MODEL,
    NOTICEABLE,
    SHOWS,
    compared,
    first_is_better,
)
from lab.claims.trainings import Trained

PLAIN = {"relu": "ReLU", "gelu": "GELU", "relu-squared": "ReLU squared"}


def bits(runs: Mapping[str, Trained]) -> Values:
    """Bits per byte of each run."""
    return {name: run.bits_per_byte for name, run in runs.items()}


def judge_parts(values: Intervals) -> str:
    """Judge "the division does the work": false if norms without it are as good for every seed."""
    whole, division = values["LayerNorm"], values["division (RMSNorm)"]
    centre, gain = values["centring only"], values["gain only"]
    if max(centre.most, gain.most) < whole.least + NOTICEABLE:
        return FALSE
    keeps_all = abs(division.mean - whole.mean) < 2 * NOTICEABLE
    is_missed = min(centre.mean, gain.mean) > whole.mean + 2 * NOTICEABLE
    return true_if(keeps_all and is_missed, NOT_SEEN)


@torch.no_grad()
def dead_units(runs: Mapping[str, Trained]) -> Values:
    """Share of hidden units that are never above 0 on 64 validation sequences."""
    values: dict[str, float] = {}
    for name, run in runs.items():
        model, highest = run.model(), list[Tensor]()

        def note(
            _module: nn.Module, _inputs: object, hidden: Tensor, to: list[Tensor] = highest
        ) -> None:
            to.append(hidden.flatten(0, -2).amax(0))

        for block in model.layers:
            assert isinstance(block, TransformerBlock)
            assert isinstance(block.ffn, FeedForward)
            block.ffn.w1.register_forward_hook(note)
        model(run.sequences()[:64, :-1])
        dead = torch.cat(highest) <= 0
        values[f"{name}: dead units, %"] = 100 * dead.double().mean().item()
    return values


CLAIMS = [
    Claim(
        name="which-part-works",
        says="Of LayerNorm's parts the division does the work, not the centring.",
        source=CIRCULATES,
        shows=f"bits per byte with LayerNorm and with its parts, each with gain: {SHOWS}",
        trains={
            "LayerNorm": {"norm": "layernorm"},
            "division (RMSNorm)": {},
            "centring only": {"norm": "centre-only"},
            "gain only": {"norm": "gain-only"},
        },
        measure=bits,
        verdict=judge_parts,
        cost="long",
    ),
    *(
        compared(
            f"swiglu-{kind}",
            f"SwiGLU beats a feed-forward part with {name} at equal parameters.",
            f"{SHAZEER}; published results disagree",
            {"SwiGLU": {}, f"{name}, 4 d": {"ffn": kind, "d_ff": 4 * D_MODEL}},
            first_is_better,
        )
        for kind, name in PLAIN.items()
    ),
    compared(
        "ffn-bias",
        "Biases in the feed-forward part help.",
        CIRCULATES,
        {"with biases": {"ffn_bias": True}, "without": {}},
        first_is_better,
    ),
    Claim(
        name="dead-units",
        says="Many units of a ReLU layer die in training.",
        source=CIRCULATES,
        shows="hidden units that are never above 0 on 64 validation sequences, after the small "
        "training; true: more than 10 %",
        trains={
            PLAIN[kind]: {"ffn": kind, "d_ff": 4 * D_MODEL} for kind in ("relu", "relu-squared")
        },
        measure=dead_units,
        verdict=lambda v: true_if(v["ReLU: dead units, %"].least > 10, NOT_SEEN),
        cost="long",
    ),
    compared(
        "head-norm-gated",
        "A gated norm on what the heads found helps.",
        f"{DAO_GU}, for its own layers",
        {"gated": {"head_norm": "gated"}, "none": {}},
        first_is_better,
    ),
    compared(
        "head-norm-group",
        "A norm of each head's output helps.",
        CIRCULATES,
        {"each head": {"head_norm": "group"}, "none": {}},
        first_is_better,
    ),
]
