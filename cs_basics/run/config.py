"""Everything that can be chosen about a run, and complete presets. No logic but the rules."""

import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

END_OF_TEXT = "<|endoftext|>"

MAX_CONTEXT_LENGTH = 1 << 20
"""The tables of rotary angles have a row for each position, and nothing else of a model tells
whether such a number in a damaged file is meant."""


def _is_positive(value: int | float) -> bool:
    return value > 0


def _is_not_negative(value: int | float) -> bool:
    return value >= 0


_RULES: list[tuple[str, Callable[[int | float], bool], str]] = [
    *((name, _is_positive, "greater than 0") for name in (
        "corpus_megabytes", "context_length", "d_model", "d_ff", "num_layers", "num_heads",
        "rope_theta", "max_steps", "max_minutes", "batch_size", "lr", "max_grad_norm",
        "embedding_lr_ratio", "eval_every", "eval_tokens", "log_every", "checkpoint_every",
        "keep_checkpoints", "accumulate",
    )),
    *((name, _is_not_negative, "0 or greater") for name in (
        "warmup_steps", "weight_decay", "sample_tokens", "num_samples", "seed",
    )),
    *((name, lambda value: 0 <= value < 1, "at least 0 and below 1") for name in (
        "beta1", "beta2",
    )),
    ("min_lr_ratio", lambda value: 0 <= value <= 1, "between 0 and 1"),
    ("context_length", lambda value: value <= MAX_CONTEXT_LENGTH, f"at most {MAX_CONTEXT_LENGTH}"),
    ("vocab_size", lambda value: value >= 257, "at least 257: 256 bytes and a special token"),
]  # fmt: skip


NormKind = Literal[
    "rmsnorm",
    "rmsnorm-llama",
    "rmsnorm-function",
    "layernorm",
    "layernorm-no-bias",
    "partial-rmsnorm",
    "group-rmsnorm",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Architecture:
    """The choices inside a Transformer beside its sizes. The defaults are Llama's."""

    norm: NormKind = "rmsnorm"
    """Which normalisation (cs_basics/norms.py)."""
    norm_eps: float = 1e-5
    """Added to the mean square by the norms of the residual stream."""
    norm_fraction: float = 0.0625
    """Share of the coordinates whose mean square partial-rmsnorm takes."""
    norm_groups: int = 8
    """Groups of coordinates that group-rmsnorm normalises one by one."""
    placement: Literal["pre", "post", "sandwich", "none"] = "pre"
    """Where the norms stand: before each part, after the residual sum, on both sides, nowhere."""
    positions: Literal["rope", "none"] = "rope"
    """How attention learns of positions; none: only from the causal mask."""
    num_kv_heads: int | None = None
    """Heads of keys and values per block, a divisor of num_heads: each serves as many heads of
    queries (grouped-query attention; 1: multi-query); none: as many as num_heads."""
    ffn: Literal["swiglu", "silu"] = "swiglu"
    """Feed-forward part; silu has two matrices: with d_ff = 4 d_model as many weights as swiglu."""
    qk_norm: bool = False
    """Normalise queries and keys, head by head, before they are rotated."""
    tie_embeddings: bool = False
    """Use the embedding table as output head too."""
    merge_projections: bool = False
    """One matrix for queries, keys and values, and one for gate and up, instead of five; and
    queries and keys in an order that is rotated faster."""
    fuse_add_norm: bool = False
    """Add to the residual stream and normalise it in one step (rmsnorm before each part)."""
    tile_attention: bool = False
    """Compute attention tile by tile and keep no scores for the backward."""
    attention_kernel: bool = True
    """On a CPU, let compiled attention in tiles with merged projections be a C++ kernel."""

    def __post_init__(self) -> None:
        if not 0 <= self.norm_eps < math.inf:
            raise ValueError(f"norm_eps={self.norm_eps} must be 0 or greater, and finite")
        if not 0 < self.norm_fraction <= 1:
            raise ValueError(f"norm_fraction={self.norm_fraction} must be above 0 and at most 1")
        if self.norm_groups < 1:
            raise ValueError(f"norm_groups={self.norm_groups} must be greater than 0")
        has_rmsnorm = self.norm.startswith("rmsnorm")
        if self.fuse_add_norm and not (self.placement == "pre" and has_rmsnorm):
            raise ValueError(
                f"fuse_add_norm needs placement=pre and a norm of the kind rmsnorm, not "
                f"placement={self.placement} and norm={self.norm}"
            )


LLAMA = Architecture()


def resolve_num_kv_heads(num_heads: int, num_kv_heads: int | None) -> int:
    """Return the number of heads of keys and values; None: as many as of queries.

    Raises:
        ValueError: The heads of queries cannot be shared out evenly among them.
    """
    if num_kv_heads is None:
        return num_heads
    if num_kv_heads < 1 or num_heads % num_kv_heads:
        raise ValueError(f"num_kv_heads={num_kv_heads} must be a divisor of num_heads={num_heads}")
    return num_kv_heads


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig(Architecture):
    """A training run, from text to samples."""

    train_text: Path | None = None
    """Text to train on, stories separated by <|endoftext|>; none: stories from the grammar."""
    valid_text: Path | None = None
    """Text to validate on; none: stories from the grammar that are not in the training text."""
    corpus_megabytes: float = 10.0
    """Megabytes of stories that the grammar writes where no training text is given."""
    run_dir: Path | None = None
    """Folder for everything the run leaves; none: the next free one of runs/PRESET, PRESET-2 ..."""

    vocab_size: int = 10_000
    """Size of the vocabulary: 256 bytes, the merges and one special token."""
    context_length: int = 256
    """Tokens the model sees at once."""
    d_model: int = 512
    """Size of the residual stream."""
    d_ff: int = 1344
    """Hidden size of the feed-forward parts; about 8/3 of d_model."""
    num_layers: int = 4
    """Number of blocks."""
    num_heads: int = 16
    """Attention heads per block; divides d_model into even sizes."""
    rope_theta: float = 10_000.0
    """Base of the rotary wavelengths."""

    max_steps: int | None = None
    """Stop after this many updates."""
    max_minutes: float | None = None
    """Stop after this many minutes; the clock starts with the script, and the schedule follows it.
    With max_steps too, whichever comes first."""
    batch_size: int = 32
    """Sequences per update."""
    order: Literal["random", "epochs"] = "random"
    """Where the sequences begin; random: anywhere; epochs: side by side, each place once before
    any comes again."""
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
    accumulate: int = 1
    """Parts in which a batch is computed, one after the other, to save memory."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """How the processes that torchrun starts share the work; ddp: each holds the whole model;
    fsdp: each holds a part of it."""
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
    chunk_loss: bool = False
    """Compute the loss chunk by chunk and never hold all logits."""
    recompute_blocks: bool = False
    """Keep only what enters each block and compute the rest again in the backward pass: less
    memory, about a quarter more time."""
    compile: bool = True
    """Compile the model with torch.compile: half a minute once, then over twice the speed."""
    wandb: Literal["disabled", "offline", "online"] = "disabled"
    """Also log to Weights & Biases; offline runs can be uploaded later with `wandb sync`."""

    def __post_init__(self) -> None:
        Architecture.__post_init__(self)
        for name, is_valid, rule in _RULES:
            value = getattr(self, name)
            if value is not None and not is_valid(value):
                raise ValueError(f"{name}={value} must be {rule}")
        if self.max_steps is None and self.max_minutes is None:
            raise ValueError("a run needs an end: set max_steps, max_minutes or both")
        d_head, remainder = divmod(self.d_model, self.num_heads)
        if remainder:
            raise ValueError(
                f"d_model={self.d_model} is not divisible by num_heads={self.num_heads}"
            )
        if d_head % 2 and self.positions == "rope":
            raise ValueError(
                f"d_model={self.d_model} and num_heads={self.num_heads} give heads of odd size "
                f"{d_head}, and rotary embedding turns pairs: choose another num_heads"
            )
        resolve_num_kv_heads(self.num_heads, self.num_kv_heads)
        if (self.train_text is None) != (self.valid_text is None):
            raise ValueError("train_text and valid_text go together: give both or neither")
        if self.norm == "group-rmsnorm" and self.d_model % self.norm_groups:
            raise ValueError(
                f"d_model={self.d_model} is not divisible by norm_groups={self.norm_groups}"
            )

    def to_json(self) -> dict[str, Any]:
        """Return plain values, paths as strings."""
        return {
            name: str(value) if isinstance(value, Path) else value
            for name, value in dataclasses.asdict(self).items()
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "TrainConfig":
        """Build a configuration from what `to_json` returned.

        Raises:
            ValueError: A key is unknown or a value has the wrong type or size.
        """
        types_of = {field.name: field.type for field in fields(cls)}
        if unknown := sorted(set(values) - set(types_of)):
            raise ValueError(f"unknown settings in the configuration: {', '.join(unknown)}")
        return cls(
            **{name: _read_value(name, types_of[name], value) for name, value in values.items()}
        )


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """How the next token is drawn from the model's scores."""

    temperature: float = 1.0
    """The scores are divided by it: below 1 the likely tokens become likelier; 0 always takes the
    likeliest."""
    top_k: int | None = None
    """Draw from the k likeliest tokens only, and those that are as likely as the last of them."""
    top_p: float | None = None
    """Draw from the likeliest tokens that together have this probability only, the one that
    crosses it included (nucleus sampling, Holtzman et al. 2020, sec. 3.1,
    https://arxiv.org/abs/1904.09751). Counts within what top_k leaves."""
    repetition_penalty: float = 1.0
    """Scores of tokens that the text holds already are divided by it if positive and multiplied
    by it if negative (Keskar et al. 2019, sec. 4.1, https://arxiv.org/abs/1909.05858); above 1
    the text repeats itself less."""
    when_full: Literal["slide", "stop"] = "slide"
    """When the context is full: forget its first half and go on, or end the text."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature={self.temperature} must be 0 or greater, and finite")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k={self.top_k} must be at least 1")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p={self.top_p} must be greater than 0 and at most 1")
        if not 0 < self.repetition_penalty < math.inf:
            raise ValueError(
                f"repetition_penalty={self.repetition_penalty} must be greater than 0, and finite"
            )


_TINYSTORIES_MODEL = TrainConfig(
    train_text=Path("data/TinyStoriesV2-GPT4-train.txt"),
    valid_text=Path("data/TinyStoriesV2-GPT4-valid.txt"),
    max_steps=5_000,
    warmup_steps=200,
)

PRESETS: dict[str, tuple[str, TrainConfig]] = {
    "debug": (
        "A tiny model on little text: does everything work? Under a minute, nonsense comes out.",
        TrainConfig(
            corpus_megabytes=0.5,
            vocab_size=512,
            context_length=64,
            d_model=64,
            d_ff=176,
            num_layers=2,
            num_heads=4,
            max_steps=200,
            batch_size=16,
            lr=3e-3,
            warmup_steps=10,
            eval_every=50,
            eval_tokens=4_096,
            log_every=10,
            checkpoint_every=100,
            num_samples=1,
            compile=False,
        ),
    ),
    "stories": (
        "Readable stories from the embedded corpus after a few minutes on a laptop.",
        TrainConfig(
            vocab_size=4_096,
            d_model=256,
            d_ff=688,
            num_heads=8,
            max_minutes=4.4,
            batch_size=8,
            lr=3e-3,
            embedding_lr_ratio=10.0,
            weight_decay=0.4,
            tile_attention=True,
            merge_projections=True,
        ),
    ),
    "tinystories-cpu": (
        "TinyStories, 40.96 million tokens; a working day on a laptop CPU.",
        dataclasses.replace(
            _TINYSTORIES_MODEL, tile_attention=True, chunk_loss=True, merge_projections=True
        ),
    ),
    "tinystories": (
        "TinyStories, 327.68 million tokens, the same model; for a GPU.",
        dataclasses.replace(_TINYSTORIES_MODEL, max_steps=10_000, batch_size=128),
    ),
}
