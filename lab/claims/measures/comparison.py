"""Two forms of a norm on the same vectors: do they agree, how exact and how large is each?"""

import torch
from torch import Tensor

from lab.claims.measures.draws import largest, normal, rms
from lab.claims.measures.forms import FORMS
from lab.claims.rules import Figures


def gains(seed: int, kind: str, d: int) -> Tensor:
    """Return gains of a kind."""
    if kind == "learned":
        return 1 + 0.3 * normal(seed + 1, d).clamp(-2, 2)
    if kind == "powers of two":
        return 2.0 ** normal(seed + 1, d).clamp(-1, 1).round()
    return torch.ones(d, dtype=torch.float64)


def vectors(seed: int, inputs: str, d: int, size: float, shift: float) -> Tensor:
    """Return 100 vectors of a kind, (100, d)."""
    x = normal(seed, 100, d)
    if inputs == "centred":
        x = x - x.mean(-1, keepdim=True)
    elif inputs == "signs":
        x = x.sign()
    elif inputs == "one coordinate":
        x[:, 1:] = 0
    elif inputs == "an outlier":
        x[:, -1] *= 50
    return shift + size * x


@torch.no_grad()
def compare(
    seed: int,
    *,
    one: str,
    other: str,
    right: str = "RMSNorm",
    inputs: str = "normal",
    gain: str = "ones",
    dtype: str = "float64",
    gain_dtype: str = "",
    eps: float = 1e-5,
    size: float = 1.0,
    shift: float = 0.0,
    d: int = 512,
) -> Figures:
    """Compute both forms in a dtype, and beside them the right one in float64."""
    kind = getattr(torch, dtype)
    x = vectors(seed, inputs, d, size, shift).to(kind)
    weight = gains(seed, gain, d).to(getattr(torch, gain_dtype) if gain_dtype else kind)
    first, second = (FORMS[form](x, weight, eps) for form in (one, other))
    exact = FORMS[right](x.double(), weight.double(), eps)
    figures = {
        "difference": largest(first.double() - second.double()),
        "differ_percent": 100 * (first != second).double().mean().item(),
    }
    for name, found in (("one", first), ("other", second)):
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
