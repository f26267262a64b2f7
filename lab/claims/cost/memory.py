"""Bytes that a norm keeps for its backward pass."""

from collections.abc import Callable

import torch

from lab.claims.claim import Claim, Intervals, Values, true_if
from lab.claims.counting import kept_bytes
from lab.claims.norm_calls import norms
from lab.claims.sources import CIRCULATES

ROWS, D = 256, 512


def kept(names: tuple[str, ...], dtype: torch.dtype, compiled: bool) -> Callable[[int], Values]:
    """Return the measurement: bytes kept for each number of x."""

    def measure(_seed: int) -> Values:
        values: dict[str, float] = {}
        for name in names:
            module = norms(D)[name].to(dtype)
            x = torch.randn(ROWS, D, dtype=dtype, requires_grad=True)
            torch.compiler.reset()
            call = torch.compile(module, fullgraph=True) if compiled else module
            parameters = list(module.parameters())
            call(x)
            num_bytes = kept_bytes(lambda call=call, x=x: call(x), parameters)
            values[f"{name}, bytes per number"] = round(num_bytes / x.numel(), 3)
        return values

    return measure


def keeps_more(values: Intervals) -> str:
    """Judge "LayerNorm keeps more"."""
    rms_norm, layer_norm = (
        values[f"{name}, bytes per number"].mean for name in ("RMSNorm", "LayerNorm")
    )
    return true_if(layer_norm > 1.1 * rms_norm)


OURS = ("RMSNorm", "LayerNorm")
WITH_KERNEL = ("torch.nn.RMSNorm", "torch.nn.LayerNorm", "FusedRMSNorm")
SHOWS = "bytes that autograd keeps for each number of x (x included), counted with hooks"

CLAIMS = [
    *(
        Claim(
            name=f"layernorm-memory-{how}-{str(dtype)[6:]}",
            says="LayerNorm needs more memory for its backward pass than RMSNorm.",
            source=CIRCULATES,
            shows=f"{SHOWS}, {how}, {str(dtype)[6:]}",
            measure=kept(OURS, dtype, how == "compiled"),
            verdict=keeps_more,
            is_exact=True,
            needs="torch.compile" if how == "compiled" else "",
        )
        for how, dtype in (
            ("eager", torch.float32),
            ("eager", torch.bfloat16),
            ("compiled", torch.float32),
        )
    ),
    Claim(
        name="derived-backward-memory",
        says="A norm with its own backward keeps x and one number per vector, no more.",
        source="follows from the formula of the gradient",
        shows=f"{SHOWS}, bfloat16; x alone is 2 bytes",
        measure=kept((*OURS, *WITH_KERNEL), torch.bfloat16, False),
        verdict=lambda v: true_if(
            v["FusedRMSNorm, bytes per number"].mean < 2.1 < v["RMSNorm, bytes per number"].mean
        ),
        is_exact=True,
    ),
]
