"""rsqrt against sqrt and division: how exact, how fast."""

from collections.abc import Callable

import torch
from torch import Tensor

from lab.claims.claim import NOT_SEEN, Values, claim
from lab.claims.draws import largest, normal
from lab.timing import alternating_times

ROWS, D, ROUNDS = 4096, 512, 51


def with_rsqrt(x: Tensor) -> Tensor:
    """Return x rsqrt(m): one root per vector, then products."""
    return x * torch.rsqrt((x * x).mean(dim=-1, keepdim=True) + 1e-5)


def with_division(x: Tensor) -> Tensor:
    """Return x / sqrt(m): a division per coordinate."""
    return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + 1e-5)


@claim("rsqrt-exact", lambda v: v["rsqrt"].least > 2 * v["sqrt and division"].most or NOT_SEEN)
def errors(seed: int) -> Values:
    """Largest error of each form in float32, in units of 2^-24 (half a unit in the last place)."""
    x = normal(seed, 500, D)
    right = with_division(x.float().double())
    return {
        "rsqrt": largest(with_rsqrt(x.float()) / right - 1) * 2**24,
        "sqrt and division": largest(with_division(x.float()) / right - 1) * 2**24,
    }


def time_of(compiled: bool) -> Callable[[int], Values]:
    """Return the measurement of the time of rsqrt in terms of sqrt and division."""

    def measure(seed: int) -> Values:
        x = normal(seed, ROWS, D).float()
        forms = (with_rsqrt, with_division)
        functions = [torch.compile(form) if compiled else form for form in forms]
        one, other = alternating_times([lambda f=f: f(x) for f in functions], ROUNDS)
        return {"time of rsqrt / time of sqrt and division": one / other}

    return measure


for _how in ("eager", "compiled"):
    claim(
        f"rsqrt-fast-{_how}",
        lambda v: v["time of rsqrt / time of sqrt and division"].is_below(0.97) or NOT_SEEN,
        needs="torch.compile" if _how == "compiled" else "",
    )(time_of(_how == "compiled"))
