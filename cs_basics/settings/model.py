"""ModelConfig: what a model computes. Settings that only affect its speed are not part of it."""

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_origin

MAX_CONTEXT_LENGTH = 1 << 20
"""A table of angles has a row for each position; a larger number comes from a damaged file."""

NUM_GROUPS = 8
"""Groups of coordinates of group-rmsnorm, which normalises each by itself."""

NormKind = Literal[
    "rmsnorm",
    "rmsnorm-llama",
    "layernorm",
    "layernorm-no-bias",
    "partial-rmsnorm",
    "group-rmsnorm",
    "rmsnorm-gemma",
]


FeedForwardKind = Literal["swiglu", "silu", "relu", "gelu", "relu-squared"]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The sizes of a Transformer language model and the choices inside it."""

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
    """Attention heads per block; without head_dim it divides d_model into even sizes."""
    rope_theta: float = 10_000.0
    """Base of the rotary wavelengths."""
    norm: NormKind = "rmsnorm"
    """Which normalisation."""
    norm_eps: float = 1e-5
    """Added to the mean square by the norms of the residual stream and of the heads."""
    placement: Literal["pre", "post", "sandwich", "none"] = "pre"
    """Where the norms stand: before each part, after the residual sum, on both sides, nowhere."""
    positions: Literal["rope", "none"] = "rope"
    """How attention learns of positions; none: only from the causal mask."""
    num_kv_heads: int | None = None
    """Heads of keys and values per block, a divisor of num_heads: several heads of queries share
    each of them (grouped-query attention; 1: multi-query); none: as many as num_heads."""
    head_dim: int | None = None
    """Size of a head; none: d_model / num_heads."""
    ffn: FeedForwardKind = "swiglu"
    """Feed-forward part. All but swiglu have two matrices and no gate: with d_ff = 4 d_model
    they have as many weights as swiglu with 8/3 d_model."""
    qk_norm: bool = False
    """Normalise queries and keys, head by head, before they are rotated."""
    value_residual: bool = False
    """Mix the values of every later block's attention with those of the first block."""
    tie_embeddings: bool = False
    """Use the embedding table as output head too."""
    head_bias: bool = False
    """Add a bias to the output head. In training it starts at the logarithm of each token's share
    of the training text."""

    def __post_init__(self) -> None:
        self._check_choices()
        for name in ("vocab_size", "context_length", "d_model", "d_ff", "num_layers", "num_heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.context_length > MAX_CONTEXT_LENGTH:
            raise ValueError(
                f"context_length={self.context_length} must be at most {MAX_CONTEXT_LENGTH}"
            )
        if not 0 < self.rope_theta < math.inf:
            raise ValueError(f"rope_theta={self.rope_theta} must be greater than 0, and finite")
        if self.positions == "none":
            require_default(self, "rope_theta", because_of="positions")
        if not 0 <= self.norm_eps < math.inf:
            raise ValueError(f"norm_eps={self.norm_eps} must be 0 or greater, and finite")
        if self.placement == "none":
            heads = () if self.qk_norm else ("norm_eps",)
            require_default(self, "norm", *heads, because_of="placement")
        if self.norm == "group-rmsnorm" and self.d_model % NUM_GROUPS:
            raise ValueError(
                f"d_model={self.d_model} is not divisible by {NUM_GROUPS}, the number of groups of "
                f"norm={self.norm}"
            )
        self._check_heads()
        if self.value_residual and self.placement != "pre":
            raise ValueError(
                f"value_residual=True needs placement=pre, not placement={self.placement}"
            )

    def _check_choices(self) -> None:
        for entry in fields(self):
            value, choices = getattr(self, entry.name), get_args(entry.type)
            if get_origin(entry.type) is Literal and value not in choices:
                known = ", ".join(choices)
                raise ValueError(f"{entry.name}={value!r} is unknown: choose one of {known}")

    def _check_heads(self) -> None:
        if self.head_dim is None and self.d_model % self.num_heads:
            raise ValueError(
                f"d_model={self.d_model} is not divisible by num_heads={self.num_heads}"
            )
        if self.d_head < 1:
            raise ValueError(f"head_dim={self.head_dim} must be at least 1")
        if self.d_head % 2 and self.positions == "rope":
            if self.head_dim is None:
                raise ValueError(
                    f"d_model={self.d_model} and num_heads={self.num_heads} give heads of odd size "
                    f"{self.d_head}: choose a num_heads with which it is even"
                )
            raise ValueError(f"head_dim={self.head_dim} is odd, and rotary embedding turns pairs")
        kv_heads = self.num_kv_heads
        if kv_heads is not None and (kv_heads < 1 or self.num_heads % kv_heads):
            raise ValueError(
                f"num_kv_heads={kv_heads} must be a divisor of num_heads={self.num_heads}"
            )

    @property
    def d_head(self) -> int:
        """Size of a head."""
        return self.d_model // self.num_heads if self.head_dim is None else self.head_dim

    @property
    def d_q(self) -> int:
        """Size of the queries of all heads together, and of the heads' joined outputs."""
        return self.d_head * self.num_heads

    @property
    def d_kv(self) -> int:
        """Size of the keys of all heads together, and of the values."""
        return self.d_head * (self.num_kv_heads or self.num_heads)


def require_default(config: Any, *names: str, because_of: str) -> None:  # noqa: ANN401  a dataclass
    """Raise ValueError if a setting that another one makes ineffective is not at its default."""
    for entry in fields(config):
        value = getattr(config, entry.name)
        if entry.name in names and value != entry.default:
            raise ValueError(
                f"{entry.name}={value} has no effect with {because_of}="
                f"{getattr(config, because_of)}: set it to {entry.default}, or choose another "
                f"{because_of}"
            )
