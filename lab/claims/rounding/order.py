"""In which order the cast to bfloat16 and the gain come."""

import torch

from cs_basics.norms import RMSNorm
from cs_basics.variants.norms import LlamaRMSNorm
from lab.claims.claim import Claim, Values, true_if
from lab.claims.draws import largest, normal
from lab.claims.sources import CIRCULATES

D = 512


def both_orders(seed: int, gain: torch.Tensor) -> Values:
    """Compare the book's order (gain, then cast) and Llama's (cast, then gain) with float64."""
    x = normal(seed, 200, D).bfloat16()
    results: dict[str, torch.Tensor] = {}
    for name, kind in (("gain first", RMSNorm), ("cast first", LlamaRMSNorm)):
        norm = kind(D, dtype=torch.bfloat16)
        norm.weight.data.copy_(gain)
        results[name] = norm(x).double()
    exact = RMSNorm(D).double()
    exact.weight.data.copy_(gain.bfloat16())
    right = exact(x.double())
    differ = (results["gain first"] != results["cast first"]).double().mean().item()
    return {
        "outputs that differ, %": 100 * differ,
        **{
            f"largest error, {name}, in 2^-8": largest(result / right - 1) * 2**8
            for name, result in results.items()
        },
    }


def learned_gain(seed: int) -> Values:
    """Gains as training leaves them."""
    return both_orders(seed, 1 + 0.3 * normal(seed + 1, D).clamp(-2, 2))


def power_of_two(seed: int) -> Values:
    """Gains of 1/2, 1 and 2."""
    return both_orders(seed, 2.0 ** normal(seed + 1, D).clamp(-1, 1).round())


CLAIMS = [
    Claim(
        name="cast-and-gain",
        says="The order of cast and gain does not matter.",
        source=CIRCULATES,
        shows="RMSNorm (gain, then cast) and Llama's order (cast, then gain) in bfloat16, gains "
        "about 1, against float64; one rounding may be off by 2^-8",
        measure=learned_gain,
        verdict=lambda v: true_if(v["outputs that differ, %"].most < 0.1),
    ),
    Claim(
        name="llama-rounds-twice",
        says="Casting before the gain rounds twice and is less exact.",
        source=CIRCULATES,
        shows="the same, errors in units of 2^-8, the most that one rounding costs",
        measure=learned_gain,
        verdict=lambda v: true_if(
            v["largest error, cast first, in 2^-8"].least
            > 1.2 * v["largest error, gain first, in 2^-8"].most
        ),
        shown=("largest error, gain first, in 2^-8", "largest error, cast first, in 2^-8"),
    ),
    Claim(
        name="orders-agree-at-the-start",
        says="At the start of training, where all gains are 1, both orders agree bit for bit.",
        source="follows from binary floating point",
        shows="outputs that differ where every gain is 1/2, 1 or 2",
        measure=power_of_two,
        verdict=lambda v: true_if(v["outputs that differ, %"].mean == 0),
        shown=("outputs that differ, %",),
    ),
]
