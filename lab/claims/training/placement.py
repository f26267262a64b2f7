"""Where the norms stand, and what happens without any: small trainings at several rates."""

from collections.abc import Mapping

from matplotlib.axes import Axes

from lab.claims.claim import NOT_SEEN, Claim, Intervals, Values, true_if
from lab.claims.sources import CIRCULATES, XIONG
from lab.claims.training.quality import (
    SHOWS,
    compared,
    first_is_better,
)
from lab.claims.trainings import BASE, Trained

RATES = (1e-3, 3e-3, 1e-2, 3e-2)
BROKEN = 0.3
"""A run that is this many bits per byte above the best one counts as broken."""
NO_NORM, NO_WARMUP = {"placement": "none"}, {"warmup_steps": 0}
KINDS = {"pre-norm": {}, "no norm": NO_NORM}


def bits(runs: Mapping[str, Trained]) -> Values:
    """Bits per byte of each run."""
    return {name: run.bits_per_byte for name, run in runs.items()}


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


def judge_no_norm(values: Intervals) -> str:
    """Judge "without norms training diverges"."""
    bare, normed = (highest_rate(values, kind) for kind in ("no norm", "pre-norm"))
    if bare == 0:
        return true_if(True)
    return f"true where lr > {bare:g} (with norms: {normed:g})" if bare < normed else NOT_SEEN


def draw_rates(axes: Axes, values: Intervals) -> None:
    """Draw bits per byte against the rate."""
    for kind in KINDS:
        found = [values[f"{kind}, {lr:g}"] for lr in RATES]
        means, errors = [i.mean for i in found], [i.half_width for i in found]
        axes.errorbar(RATES, means, yerr=errors, marker="o", capsize=3, label=kind)
    axes.set_xscale("log")
    axes.set_xlabel("highest learning rate")
    axes.set_ylabel("bits per byte (8: diverged)")
    axes.legend()


def spikes(runs: Mapping[str, Trained]) -> Values:
    """Largest gradient before clipping."""
    return {name: run.result.largest_grad_norm or 0.0 for name, run in runs.items()}


CLAIMS = [
    Claim(
        name="warmup",
        says="Pre-norm trains without warm-up where post-norm fails.",
        source=XIONG,
        shows=f"bits per byte with and without 40 updates of warm-up: {SHOWS}",
        trains={
            "pre": {},
            "pre, no warm-up": NO_WARMUP,
            "post": {"placement": "post"},
            "post, no warm-up": {"placement": "post", **NO_WARMUP},
        },
        measure=bits,
        verdict=lambda v: true_if(
            v["post, no warm-up"].mean > v["post"].mean + BROKEN
            and v["pre, no warm-up"].mean < v["pre"].mean + BROKEN / 3,
            NOT_SEEN,
        ),
        cost="long",
    ),
    compared(
        "post-as-good",
        "With warm-up, post-norm ends as good as pre-norm in a shallow model.",
        CIRCULATES,
        {"pre": {}, "post": {"placement": "post"}},
    ),
    compared(
        "sandwich",
        "Norms on both sides of each part cost no quality.",
        CIRCULATES,
        {"pre": {}, "sandwich": {"placement": "sandwich"}},
    ),
    Claim(
        name="no-norm",
        says="Without any norm, training diverges.",
        source=CIRCULATES,
        shows=f"bits per byte at four rates, with norms and without: {SHOWS}",
        trains=rates(),
        measure=bits,
        verdict=judge_no_norm,
        cost="long",
        shown=("pre-norm, 0.003", "no norm, 0.003", "pre-norm, 0.03", "no norm, 0.03"),
        draw=draw_rates,
    ),
    compared(
        "no-norm-quality",
        "At a rate that both bear, a model with norms learns better than one without.",
        CIRCULATES,
        {"pre-norm, 0.001": {"lr": 1e-3}, "no norm, 0.001": {**NO_NORM, "lr": 1e-3}},
        first_is_better,
    ),
    Claim(
        name="no-norm-gradients",
        says="Norms keep gradients small.",
        source=CIRCULATES,
        shows=f"largest gradient norm before clipping: {SHOWS}",
        trains={"pre-norm": {}, "no norm": NO_NORM},
        measure=spikes,
        verdict=lambda v: true_if(v["no norm"].least > v["pre-norm"].most, NOT_SEEN),
        cost="long",
    ),
]
