"""Which changes of its input a norm does not see: the rows of Zhang and Sennrich's table."""

from collections.abc import Callable

from torch import Tensor

from cs_basics.norms import LayerNorm, RMSNorm
from lab.claims.claim import Claim, Intervals, Values, true_if
from lab.claims.draws import largest, normal
from lab.claims.sources import BA, ZHANG

D = 64
KINDS = {"rmsnorm": RMSNorm, "layernorm": LayerNorm}
NAMES = {"rmsnorm": "RMSNorm", "layernorm": "LayerNorm"}
ROUNDING = 1e-10

Change = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]
"""Changes x (cases, D) and the weights W (D, D) in front of the norm, which gets x W^T."""


def scale_input(x: Tensor, weights: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Multiply each vector by a number of its own, from 0.001 to 1,000."""
    return x * 10 ** (3 * normal(seed + 1, len(x), 1).clamp(-1, 1)), weights


def shift_norm_input(x: Tensor, weights: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Add to all rows of W one vector, so that x W^T is shifted by one number for each case."""
    return x, weights + normal(seed + 1, 1, D)


def scale_weights(x: Tensor, weights: Tensor, seed: int) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    """Multiply the whole matrix."""
    return x, 7 * weights


def scale_one_row(x: Tensor, weights: Tensor, seed: int) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    """Multiply the weights of one neuron."""
    changed = weights.clone()
    changed[0] *= 7
    return x, changed


def change_of(kind: str, change: Change) -> Callable[[int], Values]:
    """Return the measurement: how far the output moves."""

    def measure(seed: int) -> Values:
        norm = KINDS[kind](D, eps=0.0).double()
        x, weights = normal(seed, 20, D), normal(seed + 100, D, D)
        changed_x, changed_weights = change(x, weights, seed)
        moved = norm(changed_x @ changed_weights.T) - norm(x @ weights.T)
        return {"largest change": largest(moved)}

    return measure


def is_invariant(values: Intervals) -> str:
    """Judge "it does not change"."""
    return true_if(values["largest change"].most < ROUNDING)


def is_not_invariant(values: Intervals) -> str:
    """Judge "it changes"."""
    return true_if(values["largest change"].least > 0.01)


ROWS: tuple[tuple[str, str, str, Change, bool], ...] = (
    ("rmsnorm", "scale", "the scale of its input", scale_input, True),
    ("layernorm", "scale", "the scale of its input", scale_input, True),
    ("rmsnorm", "shift", "a shift of its input (re-centring)", shift_norm_input, False),
    ("layernorm", "shift", "a shift of its input (re-centring)", shift_norm_input, True),
    ("rmsnorm", "weights", "the scale of the weight matrix before it", scale_weights, True),
    ("layernorm", "weights", "the scale of the weight matrix before it", scale_weights, True),
    ("rmsnorm", "one-neuron", "the scale of one neuron's weights", scale_one_row, False),
)

CLAIMS = [
    Claim(
        name=f"{kind}-{short}",
        says=f"{NAMES[kind]} is {'' if holds else 'not '}invariant to {what}.",
        source=f"{ZHANG}, sec. 4.1" + (f"; {BA}, sec. 5.1" if kind == "layernorm" else ""),
        shows="how far 20 outputs move when it is changed; float64, d = 64, eps = 0",
        measure=change_of(kind, change),
        verdict=is_invariant if holds else is_not_invariant,
    )
    for kind, short, what, change, holds in ROWS
]
