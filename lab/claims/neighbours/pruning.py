"""A norm couples the features of a vector: what pruning one does to the others."""

from cs_basics.norms import LayerNorm, RMSNorm
from lab.claims.claim import Values, claim
from lab.claims.draws import largest, normal

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


@claim(
    "pruning-couples",
    lambda v: (
        "true, but by 2 % or less for one ordinary feature"
        if v["RMSNorm, %"].least > 0.1 and v["RMSNorm, %"].most < 2
        else v["RMSNorm, %"].least > 0.1
    ),
)
def ordinary(seed: int) -> Values:
    """Prune a feature of size 1."""
    return pruned(seed, 1.0)


@claim("pruning-outlier", lambda v: v["RMSNorm, %"].least > 50)
def outlier(seed: int) -> Values:
    """Prune a feature of size 20."""
    return pruned(seed, 20.0)


@claim("pruning-ratios", lambda v: v["RMSNorm"].most < 1e-12 and v["LayerNorm"].least > 0.0001)
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
