"""Partial, group and gated RMSNorm."""

from cs_basics.norms import RMSNorm
from cs_basics.variants.norms import GatedRMSNorm, GroupRMSNorm, PartialRMSNorm
from lab.claims.claim import Claim, Values, true_if
from lab.claims.draws import largest, normal
from lab.claims.sources import CIRCULATES, DAO_GU, WU_HE, ZHANG

D, VECTORS, FRACTION = 512, 20_000, 1 / 16


def estimate(seed: int) -> Values:
    """Bias and spread of the partial RMS, relative to the RMS, for independent values."""
    norm, x = PartialRMSNorm(D, fraction=FRACTION), normal(seed, VECTORS, D)
    whole = x.square().mean(-1)
    part = x[:, : norm.num_measured].square().mean(-1)
    ratio = (part / whole).sqrt()
    return {
        "bias of the mean square, %": 100 * ((part.mean() / whole.mean()).item() - 1),
        "bias of the RMS, %": 100 * (ratio.mean().item() - 1),
        "spread of the RMS (std), %": 100 * ratio.std().item(),
        "1 / sqrt(2 k), %": 100 / (2 * norm.num_measured) ** 0.5,
    }


def one_large(seed: int) -> Values:
    """RMS of the output where one coordinate that is not measured is 50 times as large."""
    x = normal(seed, 200, D)
    x[:, D - 1] *= 50
    return {
        name: norm.double()(x).square().mean().sqrt().item()
        for name, norm in (
            ("RMSNorm", RMSNorm(D)),
            ("partial, 1/16", PartialRMSNorm(D, fraction=FRACTION)),
        )
    }


def one_group(seed: int) -> Values:
    """Difference of group RMSNorm with one group and RMSNorm."""
    x = normal(seed, 20, D)
    return {
        "largest difference": largest(
            GroupRMSNorm(D, num_groups=1).double()(x) - RMSNorm(D).double()(x)
        )
    }


def scaled_group(seed: int) -> Values:
    """How far outputs move when one group of eight is multiplied by 100."""
    x = normal(seed, 20, D)
    scaled = x.clone()
    scaled[:, : D // 8] *= 100
    group, whole = GroupRMSNorm(D, eps=0.0, num_groups=8).double(), RMSNorm(D, eps=0.0).double()
    return {
        "group RMSNorm": largest(group(scaled) - group(x)),
        "RMSNorm": largest(whole(scaled) - whole(x)),
    }


def gate_orders(seed: int) -> Values:
    """RMS of what comes out, with the gate after the norm and before it."""
    x, gate = normal(seed, 200, D), normal(seed + 1, 200, D)
    sizes: dict[str, float] = {}
    for name, gate_first in (("gate after", False), ("gate before", True)):
        result = GatedRMSNorm(D, gate_first=gate_first).double()(x, gate)
        sizes[f"{name}: RMS"] = result.square().mean().sqrt().item()
    return sizes


CLAIMS = [
    Claim(
        name="partial-unbiased",
        says="The RMS of the first 6.25 % of the values estimates the RMS of all without bias.",
        source=f"{ZHANG}, sec. 5, with independent values as its premise",
        shows="over 20,000 vectors of 512 independent values, 32 of them measured",
        measure=estimate,
        verdict=lambda v: (
            "true of the mean square; the RMS comes out a little low"
            if v["bias of the RMS, %"].is_below(0) and abs(v["bias of the mean square, %"].mean) < 1
            else true_if(abs(v["bias of the RMS, %"].mean) < 0.1)
        ),
        shown=("bias of the mean square, %", "bias of the RMS, %"),
    ),
    Claim(
        name="partial-spread",
        says="It is off by 1 / sqrt(2 k): 12 % for k = 32.",
        source="follows for independent normal values",
        shows="standard deviation of partial RMS / RMS",
        measure=estimate,
        verdict=lambda v: true_if(
            abs(v["spread of the RMS (std), %"].mean / v["1 / sqrt(2 k), %"].mean - 1) < 0.1
        ),
        shown=("spread of the RMS (std), %", "1 / sqrt(2 k), %"),
    ),
    Claim(
        name="partial-outlier",
        says="Partial RMSNorm bounds its output like RMSNorm.",
        source=CIRCULATES,
        shows="RMS of the output where one coordinate that is not measured is 50 times as large",
        measure=one_large,
        verdict=lambda v: true_if(v["partial, 1/16"].most < 1.1),
    ),
    Claim(
        name="group-of-one",
        says="Group RMSNorm with one group is RMSNorm.",
        source="definition",
        shows="largest difference over 20 vectors; float64",
        measure=one_group,
        verdict=lambda v: true_if(v["largest difference"].most < 1e-12),
    ),
    Claim(
        name="group-scale",
        says="Group RMSNorm also forgets the scale of each group.",
        source=f"follows from {WU_HE}",
        shows="largest change when one group of eight is multiplied by 100; float64, eps = 0",
        measure=scaled_group,
        verdict=lambda v: true_if(v["group RMSNorm"].most < 1e-10 and v["RMSNorm"].least > 0.1),
    ),
    Claim(
        name="gate-order",
        says="Whether the gate comes before or after the norm makes no difference.",
        source=f"{DAO_GU}: its code knows both orders",
        shows="RMS of the output for independent normal x and gate",
        measure=gate_orders,
        verdict=lambda v: true_if(
            abs(v["gate after: RMS"].mean - v["gate before: RMS"].mean)
            < v["gate after: RMS"].half_width + v["gate before: RMS"].half_width + 1e-3
        ),
    ),
]
