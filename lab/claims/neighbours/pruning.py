"""A norm couples the features of a vector: what pruning one does to the others."""

from cs_basics.norms import LayerNorm, RMSNorm
from lab.claims.claim import Claim, Values, true_if
from lab.claims.draws import largest, normal
from lab.claims.sources import CIRCULATES

D = 64


def pruned(seed: int, size: float) -> Values:
    """Relative change of the other outputs when a feature of a given size is set to 0."""
    x = normal(seed, 200, D)
    x[:, 0] = size
    without = x.clone()
    without[:, 0] = 0.0
    changes: dict[str, float] = {}
    for name, norm in (("RMSNorm", RMSNorm(D)), ("LayerNorm", LayerNorm(D))):
        before, after = (norm.double()(v)[:, 1:].detach() for v in (x, without))
        changes[f"{name}, %"] = 100 * ((after - before).norm() / before.norm()).item()
    return changes


def ordinary(seed: int) -> Values:
    """Prune a feature of size 1."""
    return pruned(seed, 1.0)


def outlier(seed: int) -> Values:
    """Prune a feature of size 20."""
    return pruned(seed, 20.0)


def ratios(seed: int) -> Values:
    """How far the ratios between the other outputs move when a feature is pruned."""
    x = normal(seed, 200, D)
    without = x.clone()
    without[:, 0] = 0.0
    moved: dict[str, float] = {}
    for name, norm in (("RMSNorm", RMSNorm(D)), ("LayerNorm", LayerNorm(D))):
        before, after = (norm.double()(v)[:, 1:].detach() for v in (x, without))
        unit = [v / v.norm(dim=-1, keepdim=True) for v in (before, after)]
        moved[name] = largest(unit[0] - unit[1])
    return moved


CLAIMS = [
    Claim(
        name="pruning-couples",
        says="Pruning one feature changes all others behind a norm.",
        source=CIRCULATES,
        shows="relative change of the 63 other outputs when a feature of size 1 is set to 0",
        measure=ordinary,
        verdict=lambda v: (
            "true, but by 2 % or less for one ordinary feature"
            if v["RMSNorm, %"].least > 0.1 and v["RMSNorm, %"].most < 2
            else true_if(v["RMSNorm, %"].least > 0.1)
        ),
    ),
    Claim(
        name="pruning-outlier",
        says="Pruning an outlier feature changes all others a lot.",
        source=CIRCULATES,
        shows="the same for a feature of size 20 where the others have size 1",
        measure=outlier,
        verdict=lambda v: true_if(v["RMSNorm, %"].least > 50),
    ),
    Claim(
        name="pruning-ratios",
        says="RMSNorm keeps the ratios of the features that are left; LayerNorm does not.",
        source="follows from the formulas",
        shows="largest change of the other outputs, scaled to length 1; float64",
        measure=ratios,
        verdict=lambda v: true_if(v["RMSNorm"].most < 1e-12 and v["LayerNorm"].least > 1e-4),
    ),
]
