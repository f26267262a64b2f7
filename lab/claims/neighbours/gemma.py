"""Gemma's gain, 1 + weight."""

import torch
from torch import Tensor

from cs_basics.norms import RMSNorm
from cs_basics.optim import AdamW
from cs_basics.variants.norms import GemmaRMSNorm
from lab.claims.claim import Claim, Values, true_if
from lab.claims.draws import largest, normal
from lab.claims.sources import CIRCULATES

D = 512


def same_function(seed: int) -> Values:
    """Difference of RMSNorm and Gemma's form with the same gains."""
    x, change = normal(seed, 20, D), 0.3 * normal(seed + 1, D)
    plain, gemma = RMSNorm(D).double(), GemmaRMSNorm(D).double()
    plain.weight.data.copy_(1 + change)
    gemma.weight.data.copy_(change)
    return {"largest difference": largest(plain(x) - gemma(x))}


def rounding(seed: int) -> Values:
    """Error (RMS) of gains within 0.02 of 1 that are stored in bfloat16."""
    change = 0.01 * normal(seed, D).clamp(-2, 2)
    stored = {
        "gain": (1 + change).bfloat16().double(),
        "1 + weight": 1 + change.bfloat16().double(),
    }
    return {f"stored as {name}, %": 100 * rms(gain - 1 - change) for name, gain in stored.items()}


def decay(_seed: int) -> Values:
    """Gains after 100 steps of weight decay alone, from 1.5."""
    gains: dict[str, float] = {}
    for name, kind, start in (("RMSNorm", RMSNorm, 1.5), ("Gemma", GemmaRMSNorm, 0.5)):
        norm = kind(4)
        torch.nn.init.constant_(norm.weight, start)
        optimizer = AdamW(norm.parameters(), lr=0.1, weight_decay=0.5)
        for _ in range(100):
            norm.weight.grad = torch.zeros(4)
            optimizer.step()
        gain = norm.gain if isinstance(norm, GemmaRMSNorm) else norm.weight
        gains[name] = gain.mean().item()
    return gains


def rms(x: Tensor) -> float:
    """Return the root mean square."""
    return x.square().mean().sqrt().item()


CLAIMS = [
    Claim(
        name="gemma-same-function",
        says="Gemma's RMSNorm (1 + weight) is the same function as RMSNorm.",
        source=CIRCULATES,
        shows="largest difference with the same gains, 20 vectors; float64",
        measure=same_function,
        verdict=lambda v: true_if(v["largest difference"].most < 1e-12),
    ),
    Claim(
        name="gemma-finer",
        says="Stored in bfloat16, 1 + weight keeps gains near 1 more exactly.",
        source="follows from 8 significant bits",
        shows="error (RMS) of gains within 0.02 of 1",
        measure=rounding,
        verdict=lambda v: true_if(
            v["stored as 1 + weight, %"].most < 0.1 * v["stored as gain, %"].least
        ),
    ),
    Claim(
        name="gemma-decay",
        says="Weight decay draws Gemma's gains to 1 and RMSNorm's to 0.",
        source="follows from the formulas",
        shows="gain after 100 steps of weight decay alone, from 1.5",
        measure=decay,
        verdict=lambda v: true_if(
            abs(v["Gemma"].mean - 1) < 0.01 and abs(v["RMSNorm"].mean) < 0.05
        ),
        is_exact=True,
    ),
]
