"""What fusing and compiling saves: kernels, passes, time."""

import torch
from torch import Tensor

from cs_basics.norms import RMSNorm
from lab.claims.claim import NOT_SEEN, Values, claim
from lab.claims.counting import compile_with_names, num_kernels, traffic
from lab.claims.draws import normal
from lab.claims.norm_calls import calls_of
from lab.norms.add_rms_norm import add_rms_norm
from lab.timing import alternating_times

ROWS, D, ROUNDS = 4096, 2048, 31


@claim(
    "one-kernel",
    lambda v: (
        "true of the forward; with the backward there are two"
        if v["forward: kernels"].mean == 1 and v["both: kernels"].mean == 2
        else v["both: kernels"].mean == 1
    ),
    needs="torch.compile",
)
def kernels(_seed: int) -> Values:
    """Count RMSNorm's operations when uncompiled, and its kernels when compiled."""
    x, norm = torch.randn(256, D, requires_grad=True), RMSNorm(D)
    values: dict[str, float] = {}
    compiled = compile_with_names(norm)
    for direction, call in calls_of(norm, x).items():
        values[f"{direction}: operations"] = traffic(call).num_operations
    for direction, call in calls_of(compiled, x).items():
        values[f"{direction}: kernels"] = num_kernels(call)
    return values


@claim("fusion-halves-traffic", lambda v: v["passes together"].mean <= 0.5 * v["passes apart"].mean)
def passes_of_add_norm(_seed: int) -> Values:
    """Passes of add + norm: apart, as counted with the norm as one kernel; together, the least."""
    x, residual = torch.randn(256, D), torch.randn(256, D)
    add = traffic(lambda: x + residual).num_bytes
    norm = traffic(lambda: torch.layer_norm(x, (D,))).num_bytes
    read_and_written = (x, residual, x + residual, x)
    together = sum(tensor.nbytes for tensor in read_and_written)
    return {
        "passes apart": round((add + norm) / x.nbytes, 1),
        "passes together": together / x.nbytes,
    }


@claim(
    "fusion-halves-time",
    lambda v: (
        v["time together / apart"].is_below(0.6)
        or ("true to a smaller part" if v["time together / apart"].is_below(0.97) else NOT_SEEN)
    ),
    needs="torch.compile",
)
def time_of_add_norm(seed: int) -> Values:
    """Time of add + norm compiled together, relative to both compiled separately."""
    x, residual = (normal(seed + i, ROWS, D).float() for i in range(2))
    torch.compiler.reset()
    norm = RMSNorm(D)
    alone, add = torch.compile(norm, fullgraph=True), torch.compile(plus, fullgraph=True)
    together = torch.compile(add_rms_norm, fullgraph=True)
    with torch.no_grad():
        one, other = alternating_times(
            [lambda: together(norm, x, residual), lambda: alone(add(x, residual))], ROUNDS
        )
    return {"time together / apart": one / other}


def plus(x: Tensor, residual: Tensor) -> Tensor:
    """Return the new residual stream."""
    return x + residual
