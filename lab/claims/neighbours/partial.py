"""Partial, group and gated RMSNorm."""

from cs_basics.norms import RMSNorm
from cs_basics.variants.norms import GatedRMSNorm, GroupRMSNorm, PartialRMSNorm
from lab.claims.claim import Values, claim
from lab.claims.draws import largest, normal

D, VECTORS, FRACTION = 512, 20_000, 1 / 16


@claim(
    "partial-unbiased",
    lambda v: (
        "true of the mean square; the RMS comes out a little low"
        if v["bias of the RMS, %"].is_below(0) and abs(v["bias of the mean square, %"].mean) < 1
        else abs(v["bias of the RMS, %"].mean) < 0.1
    ),
)
@claim(
    "partial-spread",
    lambda v: abs(v["spread of the RMS (std), %"].mean / v["1 / sqrt(2 k), %"].mean - 1) < 0.1,
)
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


@claim("partial-outlier", lambda v: v["partial, 1/16"].most < 1.1)
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


@claim("group-of-one", lambda v: v["largest difference"].most < 1e-12)
def one_group(seed: int) -> Values:
    """Difference of group RMSNorm with one group and RMSNorm."""
    x = normal(seed, 20, D)
    return {
        "largest difference": largest(
            GroupRMSNorm(D, num_groups=1).double()(x) - RMSNorm(D).double()(x)
        )
    }


@claim("group-scale", lambda v: v["group RMSNorm"].most < 1e-10 and v["RMSNorm"].least > 0.1)
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


@claim(
    "gate-order",
    lambda v: (
        abs(v["gate after: RMS"].mean - v["gate before: RMS"].mean)
        < v["gate after: RMS"].half_width + v["gate before: RMS"].half_width + 0.001
    ),
)
def gate_orders(seed: int) -> Values:
    """RMS of what comes out, with the gate after the norm and before it."""
    x, gate = normal(seed, 200, D), normal(seed + 1, 200, D)
    sizes: dict[str, float] = {}
    for name, gate_first in (("gate after", False), ("gate before", True)):
        result = GatedRMSNorm(D, gate_first=gate_first).double()(x, gate)
        sizes[f"{name}: RMS"] = result.square().mean().sqrt().item()
    return sizes
