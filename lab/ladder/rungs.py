"""The rungs of the ladder, in the order in which they are tried.

Each idea is tried with one value: how much of it is best is left to sweeps (docs/log.md). The
learning rate, on which the effect of most others depends, is a rung, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Rung:
    """One idea, as settings of a training run."""

    name: str
    what: str
    """What it changes, in a few words."""
    settings: dict[str, Any] = field(hash=False)
    source: str
    """Who proposed it, or where it was seen before."""
    needs: tuple[str, ...] = ()
    """Rungs that it needs; its trial by itself is run on top of these alone."""
    is_free: bool = False
    """Whether an update does the same work with it, so that its time need not be measured."""


BASE: dict[str, Any] = {
    "d_model": 256, "d_ff": 688, "num_layers": 4, "num_heads": 8,
    "order": "random", "schedule": "cosine", "lr": 3e-3, "weight_decay": 0.4,
    "beta2": 0.95,
}  # fmt: skip
"""Settings without any rung, in the place of those that the preset has by now."""

RUNGS = (
    # What the preset own-text has.
    Rung(
        "muon", "orthogonal updates of the blocks' matrices",
        {"optimizer": "muon", "muon_lr_ratio": 3.0},
        "Jordan et al. 2024; scaled as in Liu et al. 2025, arXiv 2502.16982",
    ),
    Rung(
        "dropout", "a tenth of what each part adds is dropped", {"dropout": 0.1},
        "Srivastava et al. 2014, JMLR 15",
    ),
    Rung(
        "tied", "the embedding table is the output head", {"tie_embeddings": True},
        "Press and Wolf 2017, arXiv 1608.05859",
    ),
    Rung(
        "epochs", "the text once per pass, cut into windows anew each time", {"order": "epochs"},
        "common practice", is_free=True,
    ),
    Rung(
        "linear", "the rate falls in a straight line", {"schedule": "linear"},
        "Defazio et al. 2023, arXiv 2310.07831", is_free=True,
    ),
    Rung(
        "head-bias", "a bias of the output head that starts at the tokens' shares",
        {"head_bias": True}, "Meister et al. 2023, arXiv 2212.09686",
    ),
    Rung(
        "value-residual", "values mixed with those of the first block", {"value_residual": True},
        "Zhou et al. 2024, arXiv 2410.17897",
    ),
    # What else was thought of; own-text has rate-2 and late-dropout by now, too.
    Rung("rate-2", "twice the rate", {"lr": 6e-3}, "a sweep", is_free=True),
    Rung(
        "late-dropout", "dropout from three tenths of the run on", {"dropout_from": 0.3},
        "Liu et al. 2023, arXiv 2303.01500", ("dropout",),
    ),
    Rung(
        "qk-norm", "RMSNorm of queries and keys", {"qk_norm": True},
        "Henry et al. 2020, arXiv 2010.04245",
    ),
    Rung(
        "relu-squared", "feed-forward parts without a gate, ReLU squared",
        {"ffn": "relu-squared", "d_ff": 1024}, "So et al. 2021, arXiv 2109.08668",
    ),
    Rung(
        "beta2", "squared gradients remembered for 100 updates instead of 20", {"beta2": 0.99},
        "Marek et al. 2025, arXiv 2507.07101: small batches need a longer memory", is_free=True,
    ),
)  # fmt: skip


def choose_rungs(names: Sequence[str]) -> tuple[Rung, ...]:
    """Return the named rungs and those that they need, in the order of the ladder; of none, all.

    Raises:
        ValueError: There is no rung of that name.
    """
    known = {rung.name: rung for rung in RUNGS}
    for name in names:
        if name not in known:
            raise ValueError(f"there is no rung {name!r}: choose from {', '.join(known)}")
    wanted = {needed for name in names for needed in (name, *known[name].needs)}
    return tuple(rung for rung in RUNGS if not names or rung.name in wanted)


def work_of(recipe: Sequence[str]) -> tuple[str, ...]:
    """Return the rungs of a recipe on which the time of an update depends."""
    free = {rung.name for rung in RUNGS if rung.is_free}
    return tuple(name for name in recipe if name not in free)


def settings_of(recipe: Sequence[str]) -> dict[str, Any]:
    """Return the settings of the base and the rungs of these names; a later one overrides."""
    known = {rung.name: rung for rung in RUNGS}
    settings = dict(BASE)
    for name in recipe:
        settings |= known[name].settings
    return settings


def name_of(recipe: Sequence[str]) -> str:
    """Return a name for folders and printed lines."""
    return "+".join(recipe) or "base"


def flags(settings: Mapping[str, Any]) -> list[str]:
    """Return settings as flags of train.py."""
    told: list[str] = []
    for setting, value in settings.items():
        name = setting.replace("_", "-")
        if isinstance(value, bool):
            told.append(f"--{name}" if value else f"--no-{name}")
        else:
            told += [f"--{name}", str(value)]
    return told
