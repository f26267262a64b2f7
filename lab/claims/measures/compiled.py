"""What the compiler makes of a norm on a CPU, read from the code that it generates."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._inductor import config as inductor
from torch._inductor.utils import run_and_get_code

from cs_basics.norms import RMSNorm
from lab.claims.measures.counting import traffic
from lab.claims.measures.draws import normal
from lab.claims.measures.forms import FORMS
from lab.claims.rules import Figures
from lab.norms.add_rms_norm import add_rms_norm

ROWS, D = 256, 512
Function = Callable[[Tensor, Tensor], Any]


def norm_of(x: Tensor, form: str) -> Tensor:
    """Return a form with gain 1."""
    return FORMS[form](x, torch.ones(D), 1e-5)


NORM = RMSNorm(D)
WHAT: Mapping[str, Function] = {
    "add": lambda x, residual: residual + x,
    "norm": lambda x, _: NORM(x),
    "norm of a matrix product": lambda x, _: NORM(x @ x.T @ x),
    "norm + the same norm": lambda x, _: NORM(x) + NORM(x),
    "norm + norm of another": lambda x, residual: NORM(x) + NORM(residual),
    "add and norm": lambda x, residual: add_rms_norm(NORM, x, residual),
    "norm without gain": lambda x, _: norm_of(x, "x / sqrt(m)"),
}


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


def generated(_seed: int, *, what: Mapping[str, str], trains: bool = False) -> Figures:
    """Count kernels, sweeps over a tensor of x's size, its allocations and sums along rows."""
    figures: dict[str, float] = {}
    for name, key in what.items():
        x, residual = torch.randn(2, ROWS, D).unbind()
        code = code_of(WHAT[key], trains=trains)
        with torch.no_grad():
            eager = traffic(partial(WHAT[key], x, residual), x.numel())
        sweeps = of_x(code)
        figures |= {
            f"{name}_kernels": code.count("cpp_pybinding("),
            f"{name}_sweeps": len(sweeps),
            f"{name}_least": len({*sweeps}),
            f"{name}_allocated": len(re.findall(rf"empty_strided_cpu\(\({ROWS}, {D}\)", code)),
            f"{name}_reductions": len(re.findall("vec_reduce_all<", code)),
            f"{name}_eager_operations": eager.num_operations,
            f"{name}_eager_passes": round(eager.num_bytes / x.nbytes, 1),
            f"{name}_eager_allocated": eager.num_allocated,
            f"{name}_eager_reductions": eager.num_reductions,
        }
    return figures
