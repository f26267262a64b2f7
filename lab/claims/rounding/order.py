"""In which order the cast to bfloat16 and the gain come."""

import torch

from cs_basics.norms import RMSNorm
from cs_basics.variants.norms import LlamaRMSNorm
from lab.claims.claim import Values, claim
from lab.claims.draws import largest, normal

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


@claim("cast-and-gain", lambda v: v["outputs that differ, %"].most < 0.1)
@claim(
    "llama-rounds-twice",
    lambda v: (
        v["largest error, cast first, in 2^-8"].least
        > 1.2 * v["largest error, gain first, in 2^-8"].most
    ),
)
def learned_gain(seed: int) -> Values:
    """Gains as training leaves them."""
    return both_orders(seed, 1 + 0.3 * normal(seed + 1, D).clamp(-2, 2))


@claim(
    "orders-agree-at-the-start",
    lambda v: v["outputs that differ, %"].mean == 0,
)
def power_of_two(seed: int) -> Values:
    """Gains of 1/2, 1 and 2."""
    return both_orders(seed, 2.0 ** normal(seed + 1, D).clamp(-1, 1).round())
