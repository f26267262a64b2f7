"""Bytes that a norm keeps for its backward pass."""

from collections.abc import Callable

import torch

from lab.claims.claim import Intervals, Values, claim
from lab.claims.counting import kept_bytes
from lab.claims.norm_calls import norms

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


def keeps_more(values: Intervals) -> bool:
    """Judge "LayerNorm keeps more"."""
    rms_norm, layer_norm = (
        values[f"{name}, bytes per number"].mean for name in ("RMSNorm", "LayerNorm")
    )
    return layer_norm > 1.1 * rms_norm


OURS = ("RMSNorm", "LayerNorm")
WITH_KERNEL = ("torch.nn.RMSNorm", "torch.nn.LayerNorm", "FusedRMSNorm")

for _how, _dtype in (
    ("eager", torch.float32),
    ("eager", torch.bfloat16),
    ("compiled", torch.float32),
):
    claim(
        f"layernorm-memory-{_how}-{str(_dtype)[6:]}",
        keeps_more,
        needs="torch.compile" if _how == "compiled" else "",
    )(kept(OURS, _dtype, _how == "compiled"))
claim(
    "derived-backward-memory",
    lambda v: v["FusedRMSNorm, bytes per number"].mean < 2.1 < v["RMSNorm, bytes per number"].mean,
)(kept((*OURS, *WITH_KERNEL), torch.bfloat16, False))
