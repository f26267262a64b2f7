"""Normalisation layers, and addition and norm in one, against the bandwidth of a copy."""

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from cs_basics.norms import LayerNorm, RMSNorm
from lab.norms.add_rms_norm import add_rms_norm
from lab.norms.rms_norm import FusedRMSNorm
from lab.timing import alternating_times

from .measuring import Row

ROWS, WIDTHS = 4096, (512, 2048, 4096)
DTYPES = (torch.float32, torch.bfloat16)
MAX_ROUNDS, BUDGET_S = 51, 1.5
PASSES = {1: (2, 5), 2: (4, 8)}
"""How often the least possible traffic reads or writes a tensor of x's size, by the number of
inputs: forward, and with the backward; a copy takes 2.

Norm: read x, write y; then read x and dy, write dx. Add + norm: read x and the residual, write
their sum and y; then read the sum and both gradients, write the one that x and residual share.
"""

Function = Callable[..., Any]
"""Returns what is normalised, after the addition with the sum."""
Way = tuple[str, int, nn.Module, Function]
"""A name, how many inputs it has, the norm, and what is called."""


def contenders(d_model: int, dtype: torch.dtype) -> Iterator[Way]:
    """Yield every way to normalise, and to add and normalise."""
    norm, fused = RMSNorm(d_model), FusedRMSNorm(d_model)
    modules: dict[str, nn.Module] = {
        "RMSNorm": norm,
        "torch.nn.RMSNorm": nn.RMSNorm(d_model, 1e-5),
        "LayerNorm": LayerNorm(d_model),
        "FusedRMSNorm": fused,
        "torch.nn.LayerNorm": nn.LayerNorm(d_model),
    }
    theirs: Any = importlib.import_module("transformers.models.llama.modeling_llama")
    modules["LlamaRMSNorm (transformers)"] = theirs.LlamaRMSNorm(d_model, 1e-5)
    torch.compiler.reset()
    for number, (name, module) in enumerate(modules.items()):
        module.to(dtype)
        yield name, 1, module, module
        if number < 3:
            yield f"{name}, compiled", 1, module, compiled(module)
    apart, add = compiled(norm), compiled(torch.add)

    def add_then_norm(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        total = add(residual, x)
        return apart(total), total

    yield "add, RMSNorm, each compiled", 2, norm, add_then_norm
    for each in (norm, fused):

        def together(x: Tensor, residual: Tensor, each: RMSNorm = each) -> tuple[Tensor, Tensor]:
            return add_rms_norm(each, x, residual)

        yield f"add_rms_norm, {type(each).__name__}, compiled", 2, each, compiled(together)


def compiled(function: Function) -> Function:
    """Compile as a user would; fullgraph turns a silent return to eager into an error."""
    return torch.compile(function, fullgraph=True)


def run(way: Way, inputs: list[Tensor], gradients: list[Tensor] | None) -> object:
    """Call one way on as many tensors as it takes, and its backward if there are gradients."""
    _, count, norm, function = way
    if gradients is None:
        with torch.no_grad():
            return function(*inputs[:count])
    found = function(*inputs[:count])
    outputs = [found] if isinstance(found, Tensor) else list(found)
    return torch.autograd.grad(outputs, [*inputs[:count], *norm.parameters()], gradients[:count])


def measure() -> Iterator[Row]:
    """Yield milliseconds of each way beside those that the least traffic takes as a copy."""
    for dtype, width in product(DTYPES, WIDTHS):
        ways = list(contenders(width, dtype))
        x, residual, *gradients = torch.randn(4, ROWS, width).to(dtype).unbind()
        inputs = [x.clone().requires_grad_(), residual.clone().requires_grad_()]
        for both, direction in enumerate(("forward", "forward + backward")):
            copy = partial(x.copy_, residual)
            functions = [partial(run, way, inputs, gradients if both else None) for way in ways]
            copy_s, *times = alternating_times([copy, *functions], MAX_ROUNDS, budget_s=BUDGET_S)
            for (name, count, _, _), elapsed_s in zip(ways, times, strict=True):
                least_s = copy_s * PASSES[count][both] / 2
                title = f"{name}, {direction}, {str(dtype)[6:]}, {width}"
                yield Row(title, 1000 * elapsed_s, "ms", 1000 * least_s)
