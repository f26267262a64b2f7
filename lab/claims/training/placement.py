"""Where the norms stand, and what happens without any: small trainings at several rates."""

from collections.abc import Mapping

from lab.claims.claim import NOT_SEEN, Intervals, Values, Verdict, claim
from lab.claims.training.quality import compared, first_is_better
from lab.claims.trainings import BASE, Trained

RATES = (1e-3, 3e-3, 1e-2, 3e-2)
BROKEN = 0.3
"""A run that is this many bits per byte above the best one counts as broken."""
NO_NORM, NO_WARMUP = {"placement": "none"}, {"warmup_steps": 0}
KINDS = {"pre-norm": {}, "no norm": NO_NORM}


def rates() -> dict[str, dict[str, object]]:
    """Return a training for each rate, with norms and without."""
    return {
        f"{kind}, {lr:g}": {**settings, **({} if lr == BASE.optim.lr else {"lr": lr})}
        for kind, settings in KINDS.items()
        for lr in RATES
    }


def highest_rate(values: Intervals, kind: str) -> float:
    """Return the highest rate at which the run is not broken; 0: all are.

    A rate that is too low also ends far above the best run, so lower rates say nothing.
    """
    best = min(interval.mean for interval in values.values())
    sound = [lr for lr in RATES if values[f"{kind}, {lr:g}"].mean <= best + BROKEN]
    return max(sound, default=0.0)


def judge_no_norm(values: Intervals) -> Verdict:
    """Judge "without norms training diverges"."""
    bare, normed = (highest_rate(values, kind) for kind in ("no norm", "pre-norm"))
    if bare == 0:
        return True
    return f"true where lr > {bare:g} (with norms: {normed:g})" if bare < normed else NOT_SEEN


@claim(
    "warmup",
    lambda v: (
        (
            v["post, no warm-up"].mean > v["post"].mean + BROKEN
            and v["pre, no warm-up"].mean < v["pre"].mean + BROKEN / 3
        )
        or NOT_SEEN
    ),
    trains={
        "pre": {},
        "pre, no warm-up": NO_WARMUP,
        "post": {"placement": "post"},
        "post, no warm-up": {"placement": "post", **NO_WARMUP},
    },
)
@claim(
    "no-norm",
    judge_no_norm,
    trains=rates(),
)
def bits(runs: Mapping[str, Trained]) -> Values:
    """Bits per byte of each run."""
    return {name: run.bits_per_byte for name, run in runs.items()}


@claim(
    "no-norm-gradients",
    lambda v: v["no norm"].least > v["pre-norm"].most or NOT_SEEN,
    trains={"pre-norm": {}, "no norm": NO_NORM},
)
def spikes(runs: Mapping[str, Trained]) -> Values:
    """Largest gradient before clipping."""
    return {name: run.result.largest_grad_norm or 0.0 for name, run in runs.items()}


compared("post-as-good", {"pre": {}, "post": {"placement": "post"}})
compared("sandwich", {"pre": {}, "sandwich": {"placement": "sandwich"}})
compared(
    "no-norm-quality",
    {"pre-norm, 0.001": {"lr": 1e-3}, "no norm, 0.001": {**NO_NORM, "lr": 1e-3}},
    first_is_better,
)
