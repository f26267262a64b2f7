"""TrainConfig: everything that can be chosen about a run, by subject. What, never how fast.

Complete presets: presets.py. The model's part is ModelConfig (variants/config.py).
"""

import dataclasses
import json
import math
import types
import typing
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self

from cs_basics.variants.config import ModelConfig

END_OF_TEXT = "<|endoftext|>"
MIN_VOCAB_SIZE = 257


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """What is read, and in which order."""

    train_text: Path | None = None
    """Text to train on, stories separated by <|endoftext|>; none: stories from the grammar."""
    valid_text: Path | None = None
    """Text to validate on; none: stories from the grammar that are not in the training text."""
    corpus_megabytes: float = 10.0
    """Megabytes of stories that the grammar writes where no training text is given."""
    batch_size: int = 32
    """Sequences per update."""
    order: Literal["random", "epochs"] = "random"
    """Where the sequences begin; random: anywhere; epochs: side by side, each place once before
    any comes again."""

    def __post_init__(self) -> None:
        require_positive(self, "corpus_megabytes", "batch_size")
        if (self.train_text is None) != (self.valid_text is None):
            raise ValueError("train_text and valid_text go together: give both or neither")


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """How the weights are updated."""

    lr: float = 1e-3
    """Highest learning rate."""
    embedding_lr_ratio: float = 1.0
    """The embedding table's rate, as a multiple of lr: its values are of size 1, those of the
    other matrices far below."""
    min_lr_ratio: float = 0.0
    """The rate at the end, as a share of the highest."""
    warmup_steps: int = 100
    """Updates until the rate is at its highest."""
    weight_decay: float = 0.1
    """Decoupled weight decay of AdamW."""
    beta1: float = 0.9
    """Share of the old mean gradient that AdamW keeps."""
    beta2: float = 0.95
    """Share of the old mean square of the gradient that AdamW keeps."""
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this joint norm."""

    def __post_init__(self) -> None:
        require_positive(self, "lr", "embedding_lr_ratio", "max_grad_norm")
        require_not_negative(self, "warmup_steps", "weight_decay")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 0 and below 1")
        if not 0 <= self.min_lr_ratio <= 1:
            raise ValueError(f"min_lr_ratio={self.min_lr_ratio} must be between 0 and 1")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Where a run is kept, how long it goes on, what it writes and on what it runs."""

    run_dir: Path | None = None
    """Folder for everything the run leaves; none: the next free one of runs/PRESET, PRESET-2 ..."""
    max_steps: int | None = None
    """Stop after this many updates."""
    max_minutes: float | None = None
    """Stop after this many minutes; the clock starts with the script, and the schedule follows it.
    With max_steps too, whichever comes first."""
    seed: int = 0
    """Seed of weights, batches, corpus and samples."""
    eval_every: int = 250
    """Updates between two validation losses."""
    eval_tokens: int = 32_768
    """Validation tokens read for each of them; the last one reads them all."""
    log_every: int = 20
    """Updates between two lines of metrics."""
    checkpoint_every: int = 500
    """Updates between two checkpoints."""
    keep_checkpoints: int = 2
    """Checkpoints to keep; the one with the lowest validation loss stays in any case."""
    sample_tokens: int = 64
    """Tokens of the sample that is written with each validation loss; 0: none."""
    num_samples: int = 3
    """Stories written at the end."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to train; auto: CUDA if there is one, then MPS, then the CPU."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Type of the matrix products (weights stay float32); auto: whichever is faster here."""
    fast: Literal["auto", "off"] = "auto"
    """auto: the fast twins of cs_basics/fast, compiled (up to a minute once, then several times the
    speed); off: the book's own code, line by line. Both compute the same."""
    grad_accum_steps: int = 1
    """Parts in which a batch is computed, one after the other, to save memory."""
    activation_checkpointing: bool = False
    """Keep only what enters each block and compute the rest again in the backward pass: less
    memory, about a quarter more time."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """How the processes that torchrun starts share the work; ddp: each holds the whole model;
    fsdp: each holds a part of it."""
    wandb: Literal["disabled", "offline", "online"] = "disabled"
    """Also log to Weights & Biases; offline runs can be uploaded later with `wandb sync`."""

    def __post_init__(self) -> None:
        if self.max_steps is None and self.max_minutes is None:
            raise ValueError("a run needs an end: set max_steps, max_minutes or both")
        require_positive(
            self, "max_steps", "max_minutes", "eval_every", "eval_tokens", "log_every",
            "checkpoint_every", "keep_checkpoints", "grad_accum_steps",
        )  # fmt: skip
        require_not_negative(self, "sample_tokens", "num_samples", "seed")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """A training run, from text to samples."""

    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    run: RunConfig

    def __post_init__(self) -> None:
        if self.model.vocab_size < MIN_VOCAB_SIZE:
            raise ValueError(
                f"vocab_size={self.model.vocab_size} must be at least {MIN_VOCAB_SIZE}: 256 bytes "
                "and a special token"
            )

    @classmethod
    def of(cls, **settings: Any) -> Self:  # noqa: ANN401  of any field
        """Build a configuration from settings by their own names, as flags give them.

        Raises:
            TypeError: A name is unknown.
            ValueError: A value breaks a rule.
        """
        sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
        for name, value in settings.items():
            if name not in SECTION_OF:
                raise TypeError(f"there is no setting {name}")
            sections[SECTION_OF[name]][name] = value
        return cls(**{name: SECTIONS[name](**values) for name, values in sections.items()})

    def replace(self, **settings: Any) -> Self:  # noqa: ANN401  of any field
        """Return this configuration with other values of some settings; errors as in `of`."""
        return self.of(**{**self.settings(), **settings})

    def settings(self) -> dict[str, Any]:
        """Return every setting by its own name."""
        return {name: getattr(getattr(self, where), name) for name, where in SECTION_OF.items()}

    def to_json(self) -> dict[str, dict[str, Any]]:
        """Return plain values by section, paths as strings."""
        return {
            section: {
                name: str(value) if isinstance(value, Path) else value
                for name, value in dataclasses.asdict(getattr(self, section)).items()
            }
            for section in SECTIONS
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Build a configuration from what `to_json` returned.

        Raises:
            ValueError: A key is unknown or a value has the wrong type or size.
        """
        if "d_model" in values:
            raise ValueError("written by cs_basics 0.1: read it with that version, or train anew")
        unknown = sorted(set(values) - set(SECTIONS))
        read: dict[str, Any] = {}
        for section, kind in SECTIONS.items():
            types_of = {entry.name: entry.type for entry in fields(kind)}
            given = values.get(section, {})
            unknown += sorted(set(given) - set(types_of))
            read[section] = {
                name: _read_value(name, types_of[name], value)
                for name, value in given.items()
                if name in types_of
            }
        if unknown:
            raise ValueError(f"unknown settings in the configuration: {', '.join(unknown)}")
        return cls(**{section: kind(**read[section]) for section, kind in SECTIONS.items()})


SECTIONS: dict[str, Any] = {
    "model": ModelConfig,
    "data": DataConfig,
    "optim": OptimConfig,
    "run": RunConfig,
}
SECTION_OF = {entry.name: section for section, kind in SECTIONS.items() for entry in fields(kind)}
"""The section of each setting; no two sections have a setting of the same name."""


def require_positive(config: object, *names: str) -> None:
    """Raise ValueError if a setting of these is not greater than 0; None passes."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{name}={value} must be greater than 0")


def require_not_negative(config: object, *names: str) -> None:
    """Raise ValueError if a setting of these is below 0."""
    for name in names:
        if not getattr(config, name) >= 0:
            raise ValueError(f"{name}={getattr(config, name)} must be 0 or greater")


def _read_value(name: str, expected: Any, value: Any) -> Any:  # noqa: ANN401  JSON is anything
    """Check one JSON value against the type of its field."""
    if typing.get_origin(expected) is Literal:
        if value in typing.get_args(expected):
            return value
    elif value is None:
        if type(None) in typing.get_args(expected):
            return None
    else:
        kinds = typing.get_args(expected) if isinstance(expected, types.UnionType) else (expected,)
        if Path in kinds and isinstance(value, str):
            return Path(value)
        if float in kinds and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if type(value) in kinds:
            return value
    raise ValueError(f"{name}={json.dumps(value)} is not a value of {expected}")
