"""Which changes of its input a norm does not see: the rows of Zhang and Sennrich's table."""

from collections.abc import Callable

from torch import Tensor

from cs_basics.norms import LayerNorm, RMSNorm
from lab.claims.claim import Intervals, Values, claim
from lab.claims.draws import largest, normal

D = 64
KINDS = {"rmsnorm": RMSNorm, "layernorm": LayerNorm}
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


def is_invariant(values: Intervals) -> bool:
    """Judge "it does not change"."""
    return values["largest change"].most < ROUNDING


def is_not_invariant(values: Intervals) -> bool:
    """Judge "it changes"."""
    return values["largest change"].least > 0.01


ROWS: tuple[tuple[str, str, Change, bool], ...] = (
    ("rmsnorm", "scale", scale_input, True),
    ("layernorm", "scale", scale_input, True),
    ("rmsnorm", "shift", shift_norm_input, False),
    ("layernorm", "shift", shift_norm_input, True),
    ("rmsnorm", "weights", scale_weights, True),
    ("layernorm", "weights", scale_weights, True),
    ("rmsnorm", "one-neuron", scale_one_row, False),
)

for _kind, _short, _change, _holds in ROWS:
    claim(f"{_kind}-{_short}", is_invariant if _holds else is_not_invariant)(
        change_of(_kind, _change)
    )
