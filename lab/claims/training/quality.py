"""Small trainings that differ in the norm: bits per byte, the same batches for the same seed."""

from collections.abc import Callable, Mapping
from typing import Any

from lab.claims.claim import FALSE, Claim, Intervals, Values, true_if
from lab.claims.sources import CIRCULATES, HENRY, NARANG, SHAZEER, WU_HE, ZHANG
from lab.claims.trainings import BASE, Trained

NOTICEABLE = 0.02
"""Bits per byte; smaller differences count as equal."""
DIFFERENCE = "difference, bits per byte"
D_MODEL = BASE.model.d_model
LAYERNORM = {"norm": "layernorm"}
SHOWS = "a million parameters, 400 updates on the embedded corpus"


def difference(runs: Mapping[str, Trained]) -> Values:
    """Bits per byte of the second run less those of the first."""
    (name, first), (other, second) = runs.items()
    return {
        name: first.bits_per_byte,
        other: second.bits_per_byte,
        DIFFERENCE: second.bits_per_byte - first.bits_per_byte,
    }


def are_equal(values: Intervals) -> str:
    """Judge "the second is as good as the first"."""
    found = values[DIFFERENCE]
    if found.least > NOTICEABLE:
        return FALSE
    return true_if(found.most < NOTICEABLE, "true of some seeds")


def first_is_better(values: Intervals) -> str:
    """Judge "the first is better"."""
    found = values[DIFFERENCE]
    return true_if(found.is_above(0), FALSE if found.is_below(0) else "not seen")


def compared(
    name: str,
    says: str,
    source: str,
    runs: Mapping[str, Mapping[str, Any]],
    verdict: Callable[[Intervals], str] = are_equal,
) -> Claim:
    """Return a claim on two trainings."""
    return Claim(
        name=name, says=says, source=source, shows=f"{', '.join(runs)}: {SHOWS}", trains=runs,
        measure=difference, verdict=verdict, cost="long",
    )  # fmt: skip


def nothing(_seed: int) -> Values:
    """Measure nothing."""
    return {}


CLAIMS = [
    compared(
        "quality-layernorm",
        "RMSNorm is as good as LayerNorm.",
        f"{ZHANG}, abstract; {NARANG}, table 1",
        {"LayerNorm": LAYERNORM, "RMSNorm": {}},
    ),
    compared(
        "quality-bias",
        "LayerNorm does not need its bias.",
        CIRCULATES,
        {"LayerNorm": LAYERNORM, "without bias": {"norm": "layernorm-no-bias"}},
    ),
    compared(
        "quality-partial-6",
        "Partial RMSNorm with 6.25 % of the coordinates loses nothing.",
        f"{ZHANG}, sec. 6",
        {"RMSNorm": {}, "partial, 1/16": {"norm": "partial-rmsnorm", "norm_fraction": 1 / 16}},
    ),
    compared(
        "quality-partial-12",
        "Partial RMSNorm with d / 8 coordinates loses nothing.",
        CIRCULATES,
        {"RMSNorm": {}, "partial, 1/8": {"norm": "partial-rmsnorm", "norm_fraction": 1 / 8}},
    ),
    compared(
        "quality-group",
        "Normalising 8 groups apart is as good as normalising all together.",
        f"follows no paper; groups: {WU_HE}",
        {"RMSNorm": {}, "group, 8": {"norm": "group-rmsnorm", "norm_groups": 8}},
    ),
    compared(
        "quality-qk-norm",
        "QK-norm costs no quality.",
        f"circulates; {HENRY} sees a gain",
        {"RMSNorm": {}, "with QK-norm": {"qk_norm": True}},
    ),
    compared(
        "quality-gemma",
        "Gemma's gain (1 + weight) trains as well as RMSNorm's.",
        CIRCULATES,
        {"RMSNorm": {}, "1 + weight": {"norm": "rmsnorm-gemma"}},
    ),
    compared(
        "swiglu-equal-parameters",
        "SwiGLU beats a feed-forward part without a gate at equal parameters.",
        f"{SHAZEER}; published results disagree",
        {"SwiGLU": {}, "SiLU, 4 d": {"ffn": "silu", "d_ff": 4 * D_MODEL}},
        first_is_better,
    ),
    Claim(
        name="bleu",
        says="RMSNorm gains 0.1 to 0.3 BLEU over LayerNorm.",
        source=f"circulates, with {ZHANG} as its source; its table 2 (RNNSearch, two test sets; "
        "quoted from memory) has LayerNorm 22.6 and 23.6, RMSNorm 22.4 and 23.7: -0.2 and +0.1",
        shows="nothing: the paper's translation models cannot be trained here",
        measure=nothing,
        verdict=lambda _values: FALSE,
        cost="long",
        needs="WMT's corpora and days of training",
    ),
]
