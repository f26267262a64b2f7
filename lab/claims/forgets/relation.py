"""RMSNorm and LayerNorm in terms of each other."""

from cs_basics.norms import LayerNorm, RMSNorm
from lab.claims.claim import Claim, Values, true_if
from lab.claims.draws import largest, normal
from lab.claims.sources import BRODY, CIRCULATES, GUPTA, ZHANG

D = 64


def on_centred(seed: int) -> Values:
    """Difference of the two norms on vectors of mean zero."""
    x = normal(seed, 20, D)
    x = x - x.mean(-1, keepdim=True)
    rms_norm, layer_norm = RMSNorm(D).double(), LayerNorm(D, bias=False).double()
    return {"largest difference": largest(rms_norm(x) - layer_norm(x))}


def of_centred(seed: int) -> Values:
    """Difference of LayerNorm and RMSNorm of x - mean(x)."""
    x = 3 + normal(seed, 20, D)
    centred = x - x.mean(-1, keepdim=True)
    rms_norm, layer_norm = RMSNorm(D).double(), LayerNorm(D, bias=False).double()
    return {"largest difference": largest(rms_norm(centred) - layer_norm(x))}


def squares(seed: int) -> Values:
    """Difference of RMS^2 and variance + mean^2."""
    x = 3 + normal(seed, 20, D)
    mean_square = x.square().mean(-1)
    parts = x.var(-1, correction=0) + x.mean(-1).square()
    return {"largest difference": largest(mean_square - parts)}


def deviation(seed: int) -> Values:
    """Standard deviation of RMSNorm's output for inputs of mean 0 and of mean 1."""
    x = normal(seed, 200, 512)
    centred = x - x.mean(-1, keepdim=True)
    norm = RMSNorm(512).double()
    return {
        f"mean of x = {shift}": norm(centred + shift).std(-1, correction=0).mean().item()
        for shift in (0, 1)
    }


def parameters(_seed: int) -> Values:
    """Learned numbers of each norm."""
    return {
        name: sum(p.numel() for p in kind(D).parameters()) / D
        for name, kind in (("RMSNorm, d", RMSNorm), ("LayerNorm, d", LayerNorm))
    }


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


def twice(seed: int) -> Values:
    """Difference of normalising once and twice."""
    norm, x = RMSNorm(D, eps=0.0).double(), normal(seed, 20, D)
    return {"largest difference": largest(norm(norm(x)) - norm(x))}


def peak(_seed: int) -> Values:
    """Largest value that comes out, for the vector whose length is in one coordinate."""
    x = normal(0, 1, D).zero_()
    x[0, 0] = 5.0
    return {"largest output": largest(RMSNorm(D).double()(x)), "sqrt(d)": D**0.5}


SAME = 1e-12

CLAIMS = [
    Claim(
        name="same-on-centred",
        says="On vectors of mean zero, RMSNorm and LayerNorm (without bias) are the same function.",
        source=f"{ZHANG}, sec. 4",
        shows="largest difference over 20 centred vectors; float64",
        measure=on_centred,
        verdict=lambda v: true_if(v["largest difference"].most < SAME),
    ),
    Claim(
        name="layernorm-is-centred-rmsnorm",
        says="LayerNorm is RMSNorm of x - mean(x).",
        source=f"{GUPTA}; {BRODY}",
        shows="largest difference over 20 vectors of mean 3; no bias, float64",
        measure=of_centred,
        verdict=lambda v: true_if(v["largest difference"].most < SAME),
    ),
    Claim(
        name="square-of-the-rms",
        says="RMS^2 = variance + mean^2, so the RMS is never smaller than the standard deviation.",
        source="definition",
        shows="largest difference of the two sides, 20 vectors; float64",
        measure=squares,
        verdict=lambda v: true_if(v["largest difference"].most < 1e-11),
    ),
    Claim(
        name="unit-variance",
        says="RMSNorm gives its output variance 1.",
        source=CIRCULATES,
        shows="standard deviation of the output (gain 1) where x has mean 0 and where it has 1",
        measure=deviation,
        verdict=lambda v: (
            "true where x has mean 0"
            if abs(v["mean of x = 0"].mean - 1) < 1e-3 and v["mean of x = 1"].most < 0.9
            else true_if(v["mean of x = 1"].least > 0.99)
        ),
    ),
    Claim(
        name="parameters",
        says="RMSNorm learns d numbers, LayerNorm 2 d.",
        source="definition",
        shows="parameters, in units of d",
        measure=parameters,
        verdict=lambda v: true_if((v["RMSNorm, d"].mean, v["LayerNorm, d"].mean) == (1, 2)),
        is_exact=True,
    ),
    Claim(
        name="sphere",
        says="RMSNorm puts every vector on the sphere of radius sqrt(d).",
        source=f"{BRODY}; {GUPTA}",
        shows="length of 200 outputs over sqrt(d), before and after gains from 0.5 to 1.5; eps = 0",
        measure=lengths,
        verdict=lambda v: (
            "true where the gain is 1 (otherwise an ellipsoid)"
            if v["gain 1: largest error"].most < SAME
            and v["learned gain: spread (std)"].least > 1e-3
            else true_if(v["learned gain: spread (std)"].most < SAME)
        ),
    ),
    Claim(
        name="idempotent",
        says="Normalising twice is normalising once.",
        source="definition",
        shows="largest difference, gain 1, eps = 0, 20 vectors; float64",
        measure=twice,
        verdict=lambda v: true_if(v["largest difference"].most < SAME),
    ),
    Claim(
        name="within-one",
        says="After the norm all values lie in [-1, 1].",
        source=CIRCULATES,
        shows="largest output for a vector with one coordinate that is not 0; bound: sqrt(d)",
        measure=peak,
        verdict=lambda v: true_if(v["largest output"].most < 1 + 1e-9),
        is_exact=True,
    ),
]
