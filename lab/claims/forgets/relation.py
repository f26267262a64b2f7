"""RMSNorm and LayerNorm in terms of each other."""

from cs_basics.norms import LayerNorm, RMSNorm
from lab.claims.claim import Values, claim
from lab.claims.draws import largest, normal

D = 64


@claim("same-on-centred", lambda v: v["largest difference"].most < SAME)
def on_centred(seed: int) -> Values:
    """Difference of the two norms on vectors of mean zero."""
    x = normal(seed, 20, D)
    x = x - x.mean(-1, keepdim=True)
    rms_norm, layer_norm = RMSNorm(D).double(), LayerNorm(D, bias=False).double()
    return {"largest difference": largest(rms_norm(x) - layer_norm(x))}


@claim("layernorm-is-centred-rmsnorm", lambda v: v["largest difference"].most < SAME)
def of_centred(seed: int) -> Values:
    """Difference of LayerNorm and RMSNorm of x - mean(x)."""
    x = 3 + normal(seed, 20, D)
    centred = x - x.mean(-1, keepdim=True)
    rms_norm, layer_norm = RMSNorm(D).double(), LayerNorm(D, bias=False).double()
    return {"largest difference": largest(rms_norm(centred) - layer_norm(x))}


@claim("square-of-the-rms", lambda v: v["largest difference"].most < 1e-11)
def squares(seed: int) -> Values:
    """Difference of RMS^2 and variance + mean^2."""
    x = 3 + normal(seed, 20, D)
    mean_square = x.square().mean(-1)
    parts = x.var(-1, correction=0) + x.mean(-1).square()
    return {"largest difference": largest(mean_square - parts)}


@claim(
    "unit-variance",
    lambda v: (
        "true where x has mean 0"
        if abs(v["mean of x = 0"].mean - 1) < 0.001 and v["mean of x = 1"].most < 0.9
        else v["mean of x = 1"].least > 0.99
    ),
)
def deviation(seed: int) -> Values:
    """Standard deviation of RMSNorm's output for inputs of mean 0 and of mean 1."""
    x = normal(seed, 200, 512)
    centred = x - x.mean(-1, keepdim=True)
    norm = RMSNorm(512).double()
    return {
        f"mean of x = {shift}": norm(centred + shift).std(-1, correction=0).mean().item()
        for shift in (0, 1)
    }


@claim("parameters", lambda v: (v["RMSNorm, d"].mean, v["LayerNorm, d"].mean) == (1, 2))
def parameters(_seed: int) -> Values:
    """Learned numbers of each norm."""
    return {
        name: sum(p.numel() for p in kind(D).parameters()) / D
        for name, kind in (("RMSNorm, d", RMSNorm), ("LayerNorm, d", LayerNorm))
    }


@claim(
    "sphere",
    lambda v: (
        "true where the gain is 1 (otherwise an ellipsoid)"
        if v["gain 1: largest error"].most < SAME and v["learned gain: spread (std)"].least > 0.001
        else v["learned gain: spread (std)"].most < SAME
    ),
)
def lengths(seed: int) -> Values:
    """Length of RMSNorm's output over sqrt(d): with gain 1, and with gains from 0.5 to 1.5."""
    norm, x = RMSNorm(D, eps=0.0).double(), normal(seed, 200, D)
    plain = norm(x).norm(dim=-1) / D**0.5
    norm.weight.data += 0.5 * normal(seed + 1, D).clamp(-1, 1)
    scaled = norm(x).norm(dim=-1) / D**0.5
    return {
        "gain 1: largest error": largest(plain - 1),
        "learned gain: spread (std)": scaled.std().item(),
    }


@claim("idempotent", lambda v: v["largest difference"].most < SAME)
def twice(seed: int) -> Values:
    """Difference of normalising once and twice."""
    norm, x = RMSNorm(D, eps=0.0).double(), normal(seed, 20, D)
    return {"largest difference": largest(norm(norm(x)) - norm(x))}


@claim("within-one", lambda v: v["largest output"].most < 1 + 1e-09)
def peak(_seed: int) -> Values:
    """Largest value that comes out, for the vector whose length is in one coordinate."""
    x = normal(0, 1, D).zero_()
    x[0, 0] = 5.0
    return {"largest output": largest(RMSNorm(D).double()(x)), "sqrt(d)": D**0.5}


SAME = 1e-12
