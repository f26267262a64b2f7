"""Small trainings that differ in the norm: bits per byte, the same batches for the same seed."""

from collections.abc import Callable, Mapping
from typing import Any

from lab.claims.claim import NOT_SEEN, Intervals, Values, Verdict, claim
from lab.claims.trainings import BASE, Trained

NOTICEABLE = 0.02
"""Bits per byte; smaller differences count as equal."""
DIFFERENCE = "difference, bits per byte"
D_MODEL = BASE.model.d_model
LAYERNORM = {"norm": "layernorm"}


def difference(runs: Mapping[str, Trained]) -> Values:
    """Bits per byte of the second run less those of the first."""
    (name, first), (other, second) = runs.items()
    return {
        name: first.bits_per_byte,
        other: second.bits_per_byte,
        DIFFERENCE: second.bits_per_byte - first.bits_per_byte,
    }


def are_equal(values: Intervals) -> Verdict:
    """Judge "the second is as good as the first"."""
    found = values[DIFFERENCE]
    if found.least > NOTICEABLE:
        return False
    return found.most < NOTICEABLE or "true of some seeds"


def first_is_better(values: Intervals) -> Verdict:
    """Judge "the first is better"."""
    found = values[DIFFERENCE]
    return found.is_above(0) or (False if found.is_below(0) else NOT_SEEN)


def compared(
    name: str,
    runs: Mapping[str, Mapping[str, Any]],
    verdict: Callable[[Intervals], Verdict] = are_equal,
) -> None:
    """Keep a claim on two trainings."""
    claim(name, verdict, trains=runs)(difference)


compared("quality-layernorm", {"LayerNorm": LAYERNORM, "RMSNorm": {}})
compared("quality-bias", {"LayerNorm": LAYERNORM, "without bias": {"norm": "layernorm-no-bias"}})
compared("quality-partial-6", {"RMSNorm": {}, "partial, 1/16": {"norm": "partial-rmsnorm"}})
compared("quality-group", {"RMSNorm": {}, "group, 8": {"norm": "group-rmsnorm"}})
compared("quality-qk-norm", {"RMSNorm": {}, "with QK-norm": {"qk_norm": True}})
compared("quality-gemma", {"RMSNorm": {}, "1 + weight": {"norm": "rmsnorm-gemma"}})
compared(
    "swiglu-equal-parameters",
    {"SwiGLU": {}, "SiLU, 4 d": {"ffn": "silu", "d_ff": 4 * D_MODEL}},
    first_is_better,
)
