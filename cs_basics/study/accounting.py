"""What a model costs before it exists: parameters, floating-point operations, memory, time.

Stands alone: nothing here builds a model. Counted is the plain model of transformer.py; matrix
products are all that is counted as work, the convention of PyTorch's FLOP counter, which the tests
demand agreement with. Try it: python scripts/account.py stories
"""

from dataclasses import dataclass

from cs_basics.run.config import Architecture, TrainConfig, resolve_num_kv_heads

FLOAT32_BYTES = 4
BACKWARD_PER_FORWARD = 2
"""Each product y = W x needs two for its gradient, one by x and one by W."""

ARRAYS_PER_NORM = 3
"""Kept of each norm's input: itself, scaled down against overflow, and normalised."""

Parts = dict[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelShape(Architecture):
    """The sizes and choices that determine what a model costs."""

    vocab_size: int
    """Number of token ids."""
    context_length: int
    """Longest sequence."""
    d_model: int
    """Size of the residual stream."""
    num_layers: int
    """Number of blocks."""
    num_heads: int
    """Attention heads per block, a divisor of d_model."""
    d_ff: int
    """Hidden size of the feed-forward parts."""

    def __post_init__(self) -> None:
        Architecture.__post_init__(self)
        for name in ("vocab_size", "context_length", "d_model", "num_layers", "num_heads", "d_ff"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.d_model % self.num_heads:
            raise ValueError(
                f"d_model={self.d_model} is not divisible by num_heads={self.num_heads}"
            )
        resolve_num_kv_heads(self.num_heads, self.num_kv_heads)

    @property
    def d_head(self) -> int:
        """Size of one head."""
        return self.d_model // self.num_heads

    @property
    def d_kv(self) -> int:
        """Size of the keys of all heads together, and of the values."""
        return self.d_head * resolve_num_kv_heads(self.num_heads, self.num_kv_heads)

    @property
    def ffn_matrices(self) -> int:
        """Matrices of a feed-forward part, each d_model x d_ff."""
        return 3 if self.ffn == "swiglu" else 2

    @property
    def norms_per_block(self) -> int:
        """Norms of a block, those of single heads aside."""
        return {"pre": 2, "post": 2, "sandwich": 4, "none": 0}[self.placement]

    @property
    def has_final_norm(self) -> bool:
        """Whether the stream is normalised before the output head."""
        return self.placement in ("pre", "sandwich")


def shape_of(config: TrainConfig) -> ModelShape:
    """Take from a run's configuration what determines the cost of its model."""
    return ModelShape(**{name: getattr(config, name) for name in ModelShape.__dataclass_fields__})


def parameters(shape: ModelShape) -> Parts:
    """Count the parameters of each part of the model, over all blocks.

    A table that is also the output head is counted once, as the embedding.
    """
    d_model, num_layers = shape.d_model, shape.num_layers
    per_norm = 2 * d_model if shape.norm == "layernorm" else d_model
    num_norms = num_layers * shape.norms_per_block + shape.has_final_norm
    head_norms = num_layers * 2 * shape.d_head if shape.qk_norm else 0
    return {
        "token embeddings": shape.vocab_size * d_model,
        "attention": num_layers * 2 * d_model * (d_model + shape.d_kv),
        "feed-forward": num_layers * shape.ffn_matrices * d_model * shape.d_ff,
        "norms": num_norms * per_norm + head_norms,
        "output head": 0 if shape.tie_embeddings else shape.vocab_size * d_model,
    }


def forward_flops(shape: ModelShape, seq_len: int | None = None) -> Parts:
    """Count the operations of one forward pass over one sequence, by part.

    An (m, n) by (n, p) product costs 2 m n p: a multiplication and an addition for each of the n
    terms of each of the m p results. Scores are computed for all pairs of positions, also for
    those that the causal mask then hides.

    Args:
        shape: The model.
        seq_len: Tokens in the sequence; None fills the context.
    """
    seq_len = shape.context_length if seq_len is None else seq_len
    d_model, num_layers = shape.d_model, shape.num_layers
    pairs = num_layers * 2 * seq_len**2 * d_model
    ffn = num_layers * 2 * seq_len * shape.ffn_matrices * d_model * shape.d_ff
    return {
        "attention projections": num_layers * 2 * seq_len * 2 * d_model * (d_model + shape.d_kv),
        "attention scores": pairs,
        "attention-weighted values": pairs,
        "feed-forward": ffn,
        "output head": 2 * seq_len * d_model * shape.vocab_size,
    }


def training_flops(shape: ModelShape, batch_size: int) -> Parts:
    """Count the operations of one training step, forward and backward, by part.

    The optimizer's handful of operations per parameter are no products and not counted.
    """
    factor = batch_size * (1 + BACKWARD_PER_FORWARD)
    return {part: factor * flops for part, flops in forward_flops(shape).items()}


def generation_flops(shape: ModelShape, position: int) -> Parts:
    """Count the operations of one token at a position, the earlier ones being in the KV cache."""
    one_token = forward_flops(shape, seq_len=1)
    pairs = {
        part: one_token[part] * (position + 1)
        for part in ("attention scores", "attention-weighted values")
    }
    return one_token | pairs


def training_memory(shape: ModelShape, batch_size: int) -> Parts:
    """Estimate the bytes that a training step in float32, not compiled, holds at its peak.

    Weights, gradients and the two moments of AdamW are exact. Activations are what the operations
    of the plain model keep for the backward pass, term by term; every norm counts as RMSNorm. The
    peak is where the backward pass begins: the loss keeps two arrays of the size of the logits
    (shifted, and their exponentials), and the gradient of each stands beside it.
    """
    tokens = batch_size * shape.context_length
    stream, hidden = tokens * shape.d_model, tokens * shape.d_ff
    num_parameters = total(parameters(shape))
    norms = shape.norms_per_block * ARRAYS_PER_NORM * stream
    # The input; queries and keys as rotated; values; what the heads put together. Keys and values
    # count once for each head that reads them.
    projections = 5 * stream
    if shape.qk_norm:
        projections += ARRAYS_PER_NORM * tokens * (shape.d_model + shape.d_kv)
    # exp(scores) and, for the product with the values, the probabilities.
    scores = 2 * tokens * shape.num_heads * shape.context_length
    # SwiGLU: gate, its sigmoid, its SiLU, up, and their product; without a gate no two of these.
    ffn = stream + (5 if shape.ffn == "swiglu" else 3) * hidden
    # The final norm, and what the output head reads.
    head = (shape.has_final_norm * ARRAYS_PER_NORM + 1) * stream
    logits = tokens * shape.vocab_size
    floats = {
        "weights": num_parameters,
        "gradients": num_parameters,
        "optimizer state": 2 * num_parameters,
        "activations: attention": shape.num_layers * (projections + scores),
        "activations: feed-forward": shape.num_layers * ffn,
        "activations: norms": shape.num_layers * norms + head,
        "activations: logits and loss": 4 * logits,
    }
    return {part: FLOAT32_BYTES * count for part, count in floats.items()}


def inference_memory(
    shape: ModelShape, batch_size: int = 1, bytes_per_value: int = FLOAT32_BYTES
) -> Parts:
    """Count the bytes that generation holds when the context is full.

    Args:
        shape: The model.
        batch_size: Texts written side by side.
        bytes_per_value: 4 for float32, 2 for bfloat16.
    """
    values = {
        "weights": total(parameters(shape)),
        "KV cache": 2 * shape.num_layers * batch_size * shape.context_length * shape.d_kv,
        "logits": batch_size * shape.vocab_size,
    }
    return {part: bytes_per_value * count for part, count in values.items()}


def total(parts: Parts) -> int:
    """Add up the parts."""
    return sum(parts.values())


def seconds(flops: float, peak_flops_per_s: float, utilisation: float) -> float:
    """Return how long work takes on hardware of a given peak.

    Args:
        flops: Operations.
        peak_flops_per_s: What the hardware could do at best.
        utilisation: The share of it that is reached, in (0, 1].

    Raises:
        ValueError: The peak is not positive, or the share is out of its range.
    """
    if peak_flops_per_s <= 0:
        raise ValueError(f"peak_flops_per_s={peak_flops_per_s} must be greater than 0")
    if not 0 < utilisation <= 1:
        raise ValueError(f"utilisation={utilisation} must be greater than 0 and at most 1")
    return flops / (peak_flops_per_s * utilisation)


def utilisation_of(shape: ModelShape, tokens_per_s: float, peak_flops_per_s: float) -> float:
    """Return model FLOPs utilisation (MFU) of training at a measured speed.

    Chowdhery et al. 2022, appendix B (https://arxiv.org/abs/2204.02311): only the operations that
    the model needs count, whatever else the hardware may have been kept busy with.
    """
    if peak_flops_per_s <= 0:
        raise ValueError(f"peak_flops_per_s={peak_flops_per_s} must be greater than 0")
    flops_per_token = total(training_flops(shape, batch_size=1)) / shape.context_length
    return tokens_per_s * flops_per_token / peak_flops_per_s
