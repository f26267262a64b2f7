"""Two forms of a norm on the same vectors: do they agree, how exact and how large is each?"""

import torch
from torch import Tensor

from cs_basics.norms import RMSNorm
from lab.claims.measures.draws import largest, normal, rms
from lab.claims.measures.forms import form
from lab.claims.rules import Figures


def gains(seed: int, kind: str, d: int) -> Tensor:
    """Return gains of a kind."""
    if kind == "learned":
        return 1 + 0.3 * normal(seed + 1, d).clamp(-2, 2)
    if kind == "powers of two":
        return 2.0 ** normal(seed + 1, d).clamp(-1, 1).round()
    return torch.ones(d, dtype=torch.float64)


def joined(results: Tensor | tuple[Tensor, Tensor]) -> Tensor:
    """Return one result as it is, and two as one."""
    return results if isinstance(results, Tensor) else torch.stack(results)


@torch.no_grad()
def compare(
    seed: int,
    *,
    one: str,
    other: str,
    right: str = "RMSNorm",
    inputs: str = "x",
    stream: str = "z",
    gain: str = "ones",
    dtype: str = "float64",
    gain_dtype: str = "",
    eps: float = 1e-5,
    rows: int = 100,
    d: int = 512,
    compiled: bool = False,
) -> Figures:
    """Compute both forms in a dtype, and beside them the right one in float64.

    Args:
        seed: Decides the vectors.
        one: A form, which may also name `norm`, an RMSNorm of gain 1, and `residual`.
        other: Another.
        right: What both should be.
        inputs: The vectors, an expression over x, random numbers.
        stream: The residual stream, an expression over z, others.
        gain: Kind of gains.
        dtype: Of the vectors and of the stream.
        gain_dtype: Of the gains, if it is another.
        eps: The norms' eps.
        rows: Number of vectors.
        d: Their length.
        compiled: Compile the other form.
    """
    kind = getattr(torch, dtype)
    x = eval(inputs, {"torch": torch, "x": normal(seed, rows, d)}).to(kind)
    residual = eval(stream, {"z": normal(seed + 1, rows, d)}).to(kind)
    weight = gains(seed, gain, d).to(getattr(torch, gain_dtype) if gain_dtype else kind)
    first, second = (form(each, norm=RMSNorm(d), residual=residual) for each in (one, other))
    if compiled:
        torch.compiler.reset()
        second = torch.compile(second, fullgraph=True)
    exactly = form(right, norm=RMSNorm(d).double(), residual=residual.double())
    exact = joined(exactly(x.double(), weight.double(), eps))
    results = {"one": joined(first(x, weight, eps)), "other": joined(second(x, weight, eps))}
    figures = {
        "difference": largest(results["one"].double() - results["other"].double()),
        "differ_percent": 100 * (results["one"] != results["other"]).double().mean().item(),
    }
    for name, found in results.items():
        figures |= {
            f"size_{name}": rms(found.double()),
            f"largest_{name}": largest(found),
            f"deviation_{name}": found.double().std(-1, correction=0).mean().item(),
            f"radius_error_{name}": largest(found.norm(dim=-1) / d**0.5 - 1),
            f"bytes_{name}": float(found.element_size()),
            f"error_{name}_percent": 100 * rms(found.double() - exact) / rms(exact),
            f"worst_error_{name}": largest((found.double() / exact - 1).nan_to_num()),
        }
    return figures
