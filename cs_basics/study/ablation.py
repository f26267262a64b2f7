"""Suites of runs that differ in one thing each. Data: what is compared, not how.

Tested by `make test ARGS=tests/project/test_ablation.py`.
"""

from dataclasses import fields, replace

from cs_basics.run.config import TrainConfig

Variants = dict[str, TrainConfig]
"""What is compared, by name; a name is also the name of a folder."""

# The last one diverges: decay alone takes 1 - lr * weight_decay of each weight at every update.
_RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 10.0)
_SIZES = (1, 4, 16, 64)

SUITES = ("norms", "placement", "positions", "ffn", "lr", "batch", "all")


def variants_of(suite: str, base: TrainConfig) -> Variants:
    """Return the variants of a suite.

    Args:
        suite: One of SUITES; all: every variant of every other suite, those that are equal once.
        base: The settings that the variants change.

    Raises:
        ValueError: There is no such suite.
    """
    suites = _suites(base)
    if suite in suites:
        return suites[suite]
    if suite != "all":
        raise ValueError(f"suite={suite} does not exist: choose one of {', '.join(SUITES)}")
    union: Variants = {}
    for variants in suites.values():
        for name, config in variants.items():
            if config not in union.values():
                union[name] = config
    return union


def changes(base: TrainConfig, config: TrainConfig) -> dict[str, object]:
    """Return the settings in which a run differs from the base."""
    values = {field.name: getattr(config, field.name) for field in fields(TrainConfig)}
    return {name: value for name, value in values.items() if value != getattr(base, name)}


def _suites(base: TrainConfig) -> dict[str, Variants]:
    return {
        "norms": {
            "rmsnorm": base,
            "layernorm": replace(base, norm="layernorm"),
            "layernorm-no-bias": replace(base, norm="layernorm-no-bias"),
            # The share of Zhang and Sennrich 2019, and the one that circulates.
            "partial-1-16": replace(base, norm="partial-rmsnorm", norm_fraction=1 / 16),
            "partial-1-8": replace(base, norm="partial-rmsnorm", norm_fraction=1 / 8),
            "group-8": replace(base, norm="group-rmsnorm", norm_groups=8),
            "qk-norm": replace(base, qk_norm=True),
            "no-norm": replace(base, placement="none"),
        },
        "placement": {
            "pre": base,
            "post": replace(base, placement="post"),
            "sandwich": replace(base, placement="sandwich"),
            "no-norm": replace(base, placement="none"),
            # Xiong et al. 2020: with the norm before each part, training needs no warm-up.
            "pre-no-warmup": replace(base, warmup_steps=0),
            "post-no-warmup": replace(base, placement="post", warmup_steps=0),
        },
        "positions": {
            "rope": base,
            "no-positions": replace(base, positions="none"),
        },
        "ffn": {
            "swiglu": base,
            # Two matrices of 4 d_model hold as many weights as three of 8/3 d_model.
            "silu": replace(base, ffn="silu", d_ff=4 * base.d_model),
        },
        "lr": {f"lr-{lr:g}": replace(base, lr=lr) for lr in sorted({*_RATES, base.lr})},
        "batch": {
            **{f"batch-{size}": _batch(base, size) for size in sorted({*_SIZES, base.batch_size})},
            **{f"batch-{size}-same-lr": _batch(base, size, lr=base.lr) for size in (1, 64)},
        },
    }


def _batch(base: TrainConfig, size: int, lr: float | None = None) -> TrainConfig:
    """Change the batch size, and with it what depends on the number of updates.

    The warm-up keeps its number of sequences: a large batch would else spend a short run in it.
    The rate grows with the square root of the batch, the rule for Adam (Malladi et al. 2022,
    https://arxiv.org/abs/2205.10287), unless it is given.
    """
    ratio = size / base.batch_size
    return replace(
        base,
        batch_size=size,
        warmup_steps=round(base.warmup_steps / ratio),
        lr=base.lr * ratio**0.5 if lr is None else lr,
    )
