"""What the compiler makes of a norm on a CPU, read from the code that it generates."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._inductor import config as inductor
from torch._inductor.utils import run_and_get_code

from cs_basics.norms import RMSNorm
from lab.claims.measures.counting import traffic
from lab.claims.measures.draws import normal
from lab.claims.rules import Figures
from lab.norms.add_rms_norm import add_rms_norm

ROWS, D = 256, 512
Function = Callable[[Tensor, Tensor], Any]
NORM = RMSNorm(D)
NAMES = {"norm": NORM, "add_rms_norm": add_rms_norm}
"""What compiled code may name, beside x and residual."""


def code_of(function: Function, *, trains: bool) -> str:
    """Compile a function, call it, and return all the code that was made for it."""
    x, residual = (normal(i, ROWS, D).float().requires_grad_(trains) for i in range(2))

    def call(x: Tensor, residual: Tensor) -> None:
        found = torch.compile(function, fullgraph=True)(x, residual)
        if trains:
            torch.autograd.grad(found, [x, NORM.weight], torch.ones_like(x))

    torch.compiler.reset()
    fresh = inductor.patch(force_disable_caches=True)
    with fresh, torch.set_grad_enabled(trains):
        _, codes = run_and_get_code(call, x, residual)
    return "\n".join(codes)


def of_x(code: str) -> list[str]:
    """Return which tensors of x's size are read or written, each once for each loop over it."""
    found: list[str] = []
    for loop in code.split("for(int64_t x0=")[1:]:
        is_flat = loop.startswith(f"static_cast<int64_t>(0L); x0<static_cast<int64_t>({ROWS * D}L)")
        index = "x0" if is_flat else rf"x1 \+ {D}L\*x0"
        found += re.findall(rf"(?:loadu|store)\((\w+) \+ static_cast<int64_t>\({index}\)", loop)
    return found


def generated(_seed: int, text: str, *, trains: bool = False) -> Figures:
    """Count kernels, sweeps over a tensor of x's size, its allocations and sums along rows.

    Args:
        _seed: Plays no part.
        text: What is compiled, an expression over x, residual and NAMES.
        trains: With the backward.
    """
    function: Function = eval(f"lambda x, residual: {text}", NAMES)
    x, residual = torch.randn(2, ROWS, D).unbind()
    code = code_of(function, trains=trains)
    with torch.no_grad():
        eager = traffic(partial(function, x, residual), x)
    sweeps = of_x(code)
    return {
        "kernels": code.count("cpp_pybinding("),
        "sweeps": len(sweeps),
        "least": len({*sweeps}),
        "allocated": len(re.findall(rf"empty_strided_cpu\(\({ROWS}, {D}\)", code)),
        "reductions": len(re.findall("vec_reduce_all<", code)),
        **{f"eager_{figure}": number for figure, number in eager.items()},
    }
