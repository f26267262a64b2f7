"""Gemma's gain, 1 + weight."""

import torch

from cs_basics.norms import RMSNorm
from cs_basics.optim import AdamW
from cs_basics.variants.norms import GemmaRMSNorm
from lab.claims.claim import Values, claim
from lab.claims.draws import largest, normal, rms

D = 512


@claim("gemma-same-function", lambda v: v["largest difference"].most < 1e-12)
def same_function(seed: int) -> Values:
    """Difference of RMSNorm and Gemma's form with the same gains."""
    x, change = normal(seed, 20, D), 0.3 * normal(seed + 1, D)
    plain, gemma = RMSNorm(D).double(), GemmaRMSNorm(D).double()
    plain.weight.data.copy_(1 + change)
    gemma.weight.data.copy_(change)
    return {"largest difference": largest(plain(x) - gemma(x))}


@claim(
    "gemma-finer", lambda v: v["stored as 1 + weight, %"].most < 0.1 * v["stored as gain, %"].least
)
def rounding(seed: int) -> Values:
    """Error (RMS) of gains within 0.02 of 1 that are stored in bfloat16."""
    change = 0.01 * normal(seed, D).clamp(-2, 2)
    stored = {
        "gain": (1 + change).bfloat16().double(),
        "1 + weight": 1 + change.bfloat16().double(),
    }
    return {f"stored as {name}, %": 100 * rms(gain - 1 - change) for name, gain in stored.items()}


@claim("gemma-decay", lambda v: abs(v["Gemma"].mean - 1) < 0.01 and abs(v["RMSNorm"].mean) < 0.05)
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
