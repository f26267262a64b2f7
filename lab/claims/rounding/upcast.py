"""Why the mean square is computed in float32."""

import torch
from torch import Tensor

from lab.claims.claim import NOT_SEEN, Intervals, Values, Verdict, claim
from lab.claims.draws import normal, rms

D = 4096


def normalised(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return x / RMS(x) computed in a dtype and rounded to that of x, in float64."""
    wide = x.to(dtype)
    root = torch.rsqrt((wide * wide).mean(dim=-1, keepdim=True) + 1e-5)
    return (wide * root).to(x.dtype).double()


def error_of(seed: int, low: torch.dtype) -> Values:
    """Error (RMS) of the norm computed in float32 and in the low dtype; the result has RMS 1."""
    x = normal(seed, 100, D).to(low)
    right = normalised(x.double(), torch.float64)
    return {
        f"in {name}, %": 100 * rms(normalised(x, dtype) - right)
        for name, dtype in (("float32", torch.float32), ("the low dtype", low))
    }


def of_bfloat16(seed: int) -> Values:
    """Errors for bfloat16 inputs."""
    return error_of(seed, torch.bfloat16)


def of_float16(seed: int) -> Values:
    """Errors for float16 inputs of size 1."""
    return error_of(seed, torch.float16)


@claim(
    "float16-overflow", lambda v: v["in float16"].mean == 0 and abs(v["in float32"].mean - 1) < 0.01
)
def overflow(seed: int) -> Values:
    """RMS of the output for float16 inputs of size 300, whose squares are above 65,504."""
    x = 300 * normal(seed, 100, D).sign().half()
    return {
        f"in {str(dtype)[6:]}": rms(normalised(x, dtype))
        for dtype in (torch.float32, torch.float16)
    }


@claim(
    "float16-underflow",
    lambda v: v["RMS in float16"].mean == 0 and abs(v["RMS in float32"].mean / 0.0001 - 1) < 0.01,
)
def underflow(seed: int) -> Values:
    """RMS that float16 sees of inputs of size 0.0001, whose squares are below 6e-8."""
    x = 1e-4 * normal(seed, 100, D).sign().half()
    return {
        f"RMS in {str(dtype)[6:]}": x.to(dtype).square().mean().sqrt().item()
        for dtype in (torch.float32, torch.float16)
    }


@claim(
    "bfloat16-sum",
    lambda v: (
        "true where a loop adds one by one"
        if v["added one by one"].mean == 256 and v["torch's sum"].mean == D
        else v["torch's sum"].mean == 256
    ),
)
def one_by_one(_seed: int) -> Values:
    """Sum of 4,096 ones, added one by one in bfloat16, and as torch adds them."""
    total, ones = torch.zeros((), dtype=torch.bfloat16), torch.ones(D, dtype=torch.bfloat16)
    for one in ones:
        total = total + one
    return {"added one by one": total.item(), "torch's sum": ones.sum().item()}


def judge(values: Intervals) -> Verdict:
    """Judge "ruins it": ten times the error of float32."""
    wide, low = values["in float32, %"], values["in the low dtype, %"]
    if low.least > 10 * wide.most:
        return True
    grows = low.least > 1.1 * wide.most and low.most < 3 * wide.least
    return "true to a factor below 3 (torch's sums are float32 inside)" if grows else NOT_SEEN


claim("upcast-bfloat16", judge)(of_bfloat16)
claim("upcast-float16", judge)(of_float16)
