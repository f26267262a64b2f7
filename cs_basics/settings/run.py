"""TrainConfig: all settings of a run, in sections by subject; that of the model is in model.py."""

import dataclasses
import json
import math
import types
import typing
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self

from cs_basics.settings.model import ModelConfig

END_OF_TEXT = "<|endoftext|>"
MAX_SEED = 2**63 - 1
MIN_VOCAB_SIZE = 257
MAX_CORPUS_MEGABYTES = 1_000_000


FREE = {"is_free": True}
"""Marks a setting that may be changed when a run is resumed."""


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Texts, batches and their order."""

    text: Path | None = None
    """One text, of which about nine tenths are trained on and the rest validates; in place of
    train_text and valid_text."""
    train_text: Path | None = field(default=None, metadata=FREE)
    """Text to train on, stories separated by <|endoftext|>; none: the embedded corpus."""
    valid_text: Path | None = field(default=None, metadata=FREE)
    """Text to validate on; none: other stories of the embedded corpus."""
    corpus_megabytes: float = 10.0
    """Size of the embedded corpus in megabytes, used if no training text is given."""
    batch_size: int = 32
    """Sequences per update."""
    order: Literal["random", "epochs"] = "random"
    """How sequences are drawn; random: at random positions, with replacement; epochs: side by side,
    each once per pass over the text and in a random order; a pass leaves out less than two
    sequences, at the ends of the text."""

    def __post_init__(self) -> None:
        require_positive(self, "corpus_megabytes", "batch_size")
        if self.corpus_megabytes > MAX_CORPUS_MEGABYTES:
            most = f"must be at most {MAX_CORPUS_MEGABYTES}"
            raise ValueError(f"corpus_megabytes={self.corpus_megabytes} {most}")
        if (self.train_text is None) != (self.valid_text is None):
            raise ValueError(
                "train_text and valid_text go together: give both or neither, or one text as text"
            )


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """How the weights are updated."""

    optimizer: Literal["adamw", "muon"] = "adamw"
    """adamw: for all weights; muon: orthogonal updates for the matrices of the
    blocks, AdamW for all other weights."""
    lr: float = 1e-3
    """Highest learning rate."""
    embedding_lr_ratio: float = 1.0
    """Learning rate of the embedding table, as a multiple of lr: its values are of size 1, those of
    the other matrices much smaller."""
    schedule: Literal["cosine", "linear"] = "cosine"
    """How the learning rate falls after the warm-up: along half a cosine or a straight line."""
    warmup_steps: int = 100
    """Updates until the learning rate is at its highest."""
    weight_decay: float = 0.1
    """Decoupled weight decay; where weights have a learning rate ratio, divided by that ratio."""
    beta2: float = 0.95
    """AdamW: decay rate of the second moment, the mean squared gradient."""
    dropout: float = 0.0
    """Share of what attention and feed-forward parts add to the residual stream that is dropped
    while training, after the first three tenths of the run."""
    max_grad_norm: float = 1.0
    """Gradients are clipped to this global norm."""

    def __post_init__(self) -> None:
        require_positive(self, "lr", "embedding_lr_ratio", "max_grad_norm")
        require_not_negative(self, "warmup_steps", "weight_decay")
        for name in ("beta2", "dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 0 and below 1")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Folder, length, outputs and hardware of a run."""

    run_dir: Path | None = field(default=None, metadata=FREE)
    """Folder of the run; none: the next free one of runs/PRESET, runs/PRESET-2, ..."""
    max_steps: int | None = field(default=None, metadata=FREE)
    """Stop after this many updates."""
    max_minutes: float | None = field(default=None, metadata=FREE)
    """Stop after this many minutes, counted from before the text is prepared, some seconds after
    the start of the script; the schedule then follows the clock. With max_steps too, whichever
    comes first."""
    seed: int = 0
    """Seed of weights, batches, corpus and samples."""
    eval_every: int = field(default=250, metadata=FREE)
    """Updates between two validation losses, each with a checkpoint and a short sample."""
    num_samples: int = field(default=3, metadata=FREE)
    """Stories generated at the end; 0: no samples at all, neither at the end nor during the run."""
    device: Literal["auto", "cpu", "cuda", "mps"] = field(default="auto", metadata=FREE)
    """Where to train; auto: CUDA if there is one, then MPS, then the CPU."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Type of the matrix products (weights stay float32); auto: whichever is faster here."""
    fast: Literal["auto", "off"] = field(default="auto", metadata=FREE)
    """auto: compiled (up to a minute once, then several times as fast), with fast twins where there
    are any; off: the code of cs_basics/*.py, line by line. Results are equal up to rounding."""
    grad_accum_steps: int = field(default=1, metadata=FREE)
    """Gradient accumulation: micro-batches per update, computed in turn to save memory."""
    parallel: Literal["ddp", "fsdp", "tp"] = field(default="ddp", metadata=FREE)
    """With several processes (torchrun); ddp: each holds the whole model; fsdp: each holds a shard
    of every weight; tp: each computes its heads, hidden features and vocabulary entries."""
    wandb: Literal["disabled", "offline", "online"] = field(default="disabled", metadata=FREE)
    """Also log to Weights & Biases; offline runs can be uploaded later with `wandb sync`."""

    def __post_init__(self) -> None:
        if self.max_steps is None and self.max_minutes is None:
            raise ValueError("a run needs an end: set max_steps, max_minutes or both")
        require_positive(self, "max_steps", "max_minutes", "eval_every", "grad_accum_steps")
        require_not_negative(self, "num_samples", "seed")
        if self.seed > MAX_SEED:
            raise ValueError(f"seed={self.seed} must be at most {MAX_SEED}")


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
        """Build a configuration from settings given by name, as flags are.

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
        """Return a copy with some settings changed; errors as in `of`."""
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
        """Build a configuration from the result of `to_json`, of this version or an older one.

        What was off in an older version and has left since (False, None) is passed over.

        Raises:
            ValueError: A key is unknown or a value has the wrong type or size.
        """
        unknown = sorted(set(values) - set(SECTIONS))
        read: dict[str, Any] = {}
        for section, kind in SECTIONS.items():
            types_of = {entry.name: entry.type for entry in fields(kind)}
            given: dict[str, Any] = values.get(section, {})
            unknown += sorted(name for name in given.keys() - types_of.keys() if given[name])
            read[section] = {
                name: _read_value(name, types_of[name], value)
                for name, value in given.items()
                if name in types_of
            }
        if unknown:
            names = ", ".join(unknown)
            raise ValueError(
                f"unknown settings {names}: use the version of cs_basics that wrote it"
            )
        return cls(**{section: kind(**read[section]) for section, kind in SECTIONS.items()})


SECTIONS: dict[str, Any] = {
    "model": ModelConfig,
    "data": DataConfig,
    "optim": OptimConfig,
    "run": RunConfig,
}
SECTION_OF = {entry.name: section for section, kind in SECTIONS.items() for entry in fields(kind)}
"""The section of each setting; names are unique across sections."""
FREE_ON_RESUME = {
    entry.name
    for kind in SECTIONS.values()
    for entry in fields(kind)
    if entry.metadata.get("is_free")
}
"""Settings that may be changed when a run is resumed."""


def require_positive(config: object, *names: str) -> None:
    """Raise ValueError if any of these settings is not None and not greater than 0."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not 0 < value < math.inf:
            must = "must be finite" if value == math.inf else "must be greater than 0"
            raise ValueError(f"{name}={value} {must}")


def require_not_negative(config: object, *names: str) -> None:
    """Raise ValueError if any of these settings is below 0 or infinite."""
    for name in names:
        value = getattr(config, name)
        if not 0 <= value < math.inf:
            must = "must be finite" if value == math.inf else "must be 0 or greater"
            raise ValueError(f"{name}={value} {must}")


def _read_value(name: str, expected: Any, value: Any) -> Any:  # noqa: ANN401  JSON is anything
    """Validate one JSON value against the type of its field."""
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
