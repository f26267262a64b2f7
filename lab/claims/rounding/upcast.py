"""Why the mean square is computed in float32."""

import torch
from torch import Tensor

from lab.claims.claim import NOT_SEEN, Claim, Intervals, Values, true_if
from lab.claims.draws import normal
from lab.claims.sources import CIRCULATES, MICIKEVICIUS

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


def rms(x: Tensor) -> float:
    """Return the root mean square."""
    return x.square().mean().sqrt().item()


def of_bfloat16(seed: int) -> Values:
    """Errors for bfloat16 inputs."""
    return error_of(seed, torch.bfloat16)


def of_float16(seed: int) -> Values:
    """Errors for float16 inputs of size 1."""
    return error_of(seed, torch.float16)


def overflow(seed: int) -> Values:
    """RMS of the output for float16 inputs of size 300, whose squares are above 65,504."""
    x = 300 * normal(seed, 100, D).sign().half()
    return {
        f"in {str(dtype)[6:]}": rms(normalised(x, dtype))
        for dtype in (torch.float32, torch.float16)
    }


def underflow(seed: int) -> Values:
    """RMS that float16 sees of inputs of size 0.0001, whose squares are below 6e-8."""
    x = 1e-4 * normal(seed, 100, D).sign().half()
    return {
        f"RMS in {str(dtype)[6:]}": x.to(dtype).square().mean().sqrt().item()
        for dtype in (torch.float32, torch.float16)
    }


def one_by_one(_seed: int) -> Values:
    """Sum of 4,096 ones, added one by one in bfloat16, and as torch adds them."""
    total, ones = torch.zeros((), dtype=torch.bfloat16), torch.ones(D, dtype=torch.bfloat16)
    for one in ones:
        total = total + one
    return {"added one by one": total.item(), "torch's sum": ones.sum().item()}


def judge(values: Intervals) -> str:
    """Judge "ruins it": ten times the error of float32."""
    wide, low = values["in float32, %"], values["in the low dtype, %"]
    if low.least > 10 * wide.most:
        return true_if(True)
    grows = low.least > 1.1 * wide.most and low.most < 3 * wide.least
    return "true to a factor below 3 (torch's sums are float32 inside)" if grows else NOT_SEEN


CLAIMS = [
    *(
        Claim(
            name=f"upcast-{name}",
            says=f"The norm must be computed in float32, or the rounding of {name} ruins it.",
            source=CIRCULATES,
            shows="error (RMS) of x / RMS(x) against float64, whose RMS is 1, d = 4,096; in "
            "float32 all of it is the one rounding of the result",
            measure=measure,
            verdict=judge,
        )
        for name, measure in (("bfloat16", of_bfloat16), ("float16", of_float16))
    ),
    Claim(
        name="float16-overflow",
        says="Squares overflow float16 from 256 on, so the norm needs float32.",
        source=f"{MICIKEVICIUS}, sec. 3; circulates",
        shows="RMS of the output (right: 1) for inputs of size 300, mean square in each dtype",
        measure=overflow,
        verdict=lambda v: true_if(
            v["in float16"].mean == 0 and abs(v["in float32"].mean - 1) < 0.01
        ),
    ),
    Claim(
        name="float16-underflow",
        says="Squares of values below 0.0002 vanish in float16.",
        source=CIRCULATES,
        shows="RMS as computed for inputs of size 0.0001",
        measure=underflow,
        verdict=lambda v: true_if(
            v["RMS in float16"].mean == 0 and abs(v["RMS in float32"].mean / 1e-4 - 1) < 0.01
        ),
    ),
    Claim(
        name="bfloat16-sum",
        says="A sum in bfloat16 stands still at 256, because 256 + 1 rounds to 256.",
        source="follows from 8 significant bits",
        shows="sum of 4,096 ones",
        measure=one_by_one,
        verdict=lambda v: (
            "true where a loop adds one by one"
            if v["added one by one"].mean == 256 and v["torch's sum"].mean == D
            else true_if(v["torch's sum"].mean == 256)
        ),
        is_exact=True,
    ),
]
