"""The suites of ablations: named variants of a configuration that differ in one thing each."""

import math
from collections.abc import Callable

from cs_basics.settings.run import TrainConfig

Variants = dict[str, TrainConfig]
"""Configurations by name; the names are also names of folders."""

# The last one diverges: an update of AdamW changes a weight by about the rate.
_RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 10.0)
_BATCH_SIZES = (1, 4, 16, 64)


def variants_of(suite: str, base: TrainConfig) -> Variants:
    """Return the variants of a suite.

    Args:
        suite: One of SUITES; all: the variants of all suites, equal ones once.
        base: The configuration that the variants change.

    Raises:
        ValueError: There is no such suite.
    """
    if suite in _SUITES:
        return _SUITES[suite](base)
    if suite != "all":
        raise ValueError(f"suite={suite} does not exist: choose one of {', '.join(SUITES)}")
    union: Variants = {}
    for variants in _SUITES.values():
        for name, config in variants(base).items():
            if config not in union.values():
                union[name] = config
    return union


def changes(base: TrainConfig, config: TrainConfig) -> dict[str, object]:
    """Return the settings in which a configuration differs from the base."""
    of_base = base.settings()
    return {name: value for name, value in config.settings().items() if value != of_base[name]}


def _norms(base: TrainConfig) -> Variants:
    base = base.replace(value_residual=False)  # Only pre-norm blocks have it.
    return {
        "rmsnorm": base,
        "layernorm": base.replace(norm="layernorm"),
        "layernorm-no-bias": base.replace(norm="layernorm-no-bias"),
        "partial": base.replace(norm="partial-rmsnorm"),
        "group": base.replace(norm="group-rmsnorm"),
        "gemma": base.replace(norm="rmsnorm-gemma"),
        "qk-norm": base.replace(qk_norm=True),
        "no-norm": base.replace(placement="none"),
    }


def _placement(base: TrainConfig) -> Variants:
    base = base.replace(value_residual=False)
    return {
        "pre": base,
        "post": base.replace(placement="post"),
        "sandwich": base.replace(placement="sandwich"),
        "no-norm": base.replace(placement="none"),
        # Xiong et al. 2020: with the norm before each part, training needs no warm-up.
        "pre-no-warmup": base.replace(warmup_steps=0),
        "post-no-warmup": base.replace(placement="post", warmup_steps=0),
    }


def _positions(base: TrainConfig) -> Variants:
    return {"rope": base, "no-positions": base.replace(positions="none")}


def _ffn(base: TrainConfig) -> Variants:
    # Two matrices of 4 d_model hold as many weights as three of 8/3 d_model.
    return {"swiglu": base} | {
        kind: base.replace(ffn=kind, d_ff=4 * base.model.d_model)
        for kind in ("silu", "relu", "gelu", "relu-squared")
    }


def _lr(base: TrainConfig) -> Variants:
    return {f"lr-{lr:g}": base.replace(lr=lr) for lr in sorted({*_RATES, base.optim.lr})}


def _batch(base: TrainConfig) -> Variants:
    sizes = sorted({*_BATCH_SIZES, base.data.batch_size})
    scaled = {f"batch-{size}": _with_batch(base, size) for size in sizes}
    return scaled | {
        f"batch-{size}-same-lr": _with_batch(base, size, base.optim.lr) for size in (1, 64)
    }


def _with_batch(base: TrainConfig, batch_size: int, lr: float | None = None) -> TrainConfig:
    """Change the batch size, and with it the numbers of updates and the learning rate.

    Warm-up and, if the base has a limit of updates, the whole run keep their numbers of sequences:
    otherwise the warm-up would fill a short run of large batches, and equal numbers of updates
    would compare budgets of 1 and 64 times the text. The rate, unless it is given, grows with the
    square root of the batch size, the rule for Adam (Malladi et al. 2022,
    https://arxiv.org/abs/2205.10287).
    """
    ratio = batch_size / base.data.batch_size
    return base.replace(
        batch_size=batch_size,
        warmup_steps=round(base.optim.warmup_steps / ratio),
        max_steps=base.run.max_steps and math.ceil(base.run.max_steps / ratio),
        lr=base.optim.lr * ratio**0.5 if lr is None else lr,
    )


_SUITES: dict[str, Callable[[TrainConfig], Variants]] = {
    "norms": _norms,
    "placement": _placement,
    "positions": _positions,
    "ffn": _ffn,
    "lr": _lr,
    "batch": _batch,
}
SUITES = (*_SUITES, "all")
