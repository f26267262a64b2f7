"""What a model costs before it exists: parameters, floating-point operations, memory, time.

Everything is computed from a ModelConfig; no model is built. Memory is that of the book's code, not
of its fast twins. Only matrix products count as work, as in PyTorch's FLOP counter, with which the
tests compare. Try it: python scripts/account.py stories
"""

from cs_basics.settings.model import ModelConfig

FLOAT32_BYTES = 4
BACKWARD_PER_FORWARD = 2
"""Each product y = W x needs two in the backward pass: for the gradients of x and of W."""

ARRAYS_PER_NORM = 2
"""Kept for the backward pass of each norm: its input, and the normalised input."""

HIDDEN_ARRAYS = {"swiglu": 5, "silu": 3, "relu": 2, "gelu": 4, "relu-squared": 3}
"""Arrays of the size of the hidden layer that a feed-forward part keeps besides its input. swiglu:
gate, its sigmoid, its SiLU, up, their product. silu: the layer, its sigmoid, its SiLU. relu: before
and after. gelu: the layer, the argument of erf, the factor, the product. relu-squared: before,
after, and the square."""

Parts = dict[str, int]


def parameters(config: ModelConfig) -> Parts:
    """Count the parameters of each part of the model, over all blocks.

    Tied weights are counted once, as the embedding.
    """
    d_model, num_layers = config.d_model, config.num_layers
    value_scales = 2 * (num_layers - 1) if config.value_residual else 0
    head_norms = 2 * config.d_head if config.qk_norm else 0
    return {
        "token embeddings": config.vocab_size * d_model,
        "attention": num_layers * d_model * attention_width(config) + value_scales,
        "feed-forward": num_layers * num_ffn_matrices(config) * d_model * config.d_ff,
        "norms": num_norms(config) * norm_parameters(config) + num_layers * head_norms,
        "output head": config.vocab_size
        * ((0 if config.tie_embeddings else d_model) + config.head_bias),
    }


def norm_parameters(config: ModelConfig) -> int:
    """Return the number of parameters of a norm of the residual stream."""
    if config.norm == "rmsnorm":
        return config.d_model  # The book's, which a student may still have to write.
    # A student's edition has no other norm, and no such folder.
    from cs_basics.variants.model import make_norm

    return sum(parameter.numel() for parameter in make_norm(config).parameters())


def num_norms(config: ModelConfig) -> int:
    """Return the number of norms of the residual stream, the final one included."""
    per_block, num_final = {"pre": (2, 1), "post": (2, 0), "sandwich": (4, 1), "none": (0, 0)}[
        config.placement
    ]
    return config.num_layers * per_block + num_final


def attention_width(config: ModelConfig) -> int:
    """Return how many rows or columns of size d_model an attention layer's matrices have in all."""
    return 2 * (config.d_q + config.d_kv)


def num_ffn_matrices(config: ModelConfig) -> int:
    """Return the number of matrices of a feed-forward part, each d_model x d_ff."""
    return 3 if config.ffn == "swiglu" else 2


def forward_flops(config: ModelConfig, seq_len: int | None = None) -> Parts:
    """Count the operations of one forward pass over one sequence, by part.

    An (m, n) by (n, p) product costs 2 m n p: a multiplication and an addition for each of the n
    terms of each of the m p results. Scores are counted for all pairs of positions, including
    those that the causal mask hides.

    Args:
        config: The model.
        seq_len: Tokens in the sequence; None fills the context.
    """
    seq_len = config.context_length if seq_len is None else seq_len
    d_model, num_layers = config.d_model, config.num_layers
    pairs = num_layers * 2 * seq_len**2 * config.d_q
    ffn = num_layers * 2 * seq_len * num_ffn_matrices(config) * d_model * config.d_ff
    return {
        "attention projections": num_layers * 2 * seq_len * d_model * attention_width(config),
        "attention scores": pairs,
        "attention-weighted values": pairs,
        "feed-forward": ffn,
        "output head": 2 * seq_len * d_model * config.vocab_size,
    }


def training_flops(config: ModelConfig, batch_size: int) -> Parts:
    """Count the operations of one training step, forward and backward, by part.

    The optimizer's few operations per parameter are no matrix products and are not counted.
    """
    factor = batch_size * (1 + BACKWARD_PER_FORWARD)
    return {part: factor * flops for part, flops in forward_flops(config).items()}


def generation_flops(config: ModelConfig, position: int) -> Parts:
    """Count the operations of generating the token at a position, with a KV cache, by part."""
    one_token = forward_flops(config, seq_len=1)
    pairs = {
        part: one_token[part] * (position + 1)
        for part in ("attention scores", "attention-weighted values")
    }
    return one_token | pairs


def training_memory(config: ModelConfig, batch_size: int) -> Parts:
    """Count the bytes that a training step holds at its peak, by part: float32, the book's code.

    Weights, gradients and the two moments of AdamW are exact. Activations are the arrays that
    autograd keeps for the backward pass; left out are those with one number per position or head,
    about 1 %. The peak is at the start of the backward pass: the loss has kept two arrays of the
    size of the logits (the shifted logits and their exponentials), and the gradient of each is
    allocated beside it.
    """
    tokens = batch_size * config.context_length
    stream, hidden = tokens * config.d_model, tokens * config.d_ff
    # What the projections read; rotated queries and keys; values; what the output projection
    # reads. Keys and values are repeated for each head of queries that shares them.
    attention = stream + 4 * tokens * config.d_q
    if config.qk_norm:
        attention += ARRAYS_PER_NORM * tokens * (config.d_q + config.d_kv)
    # The exponentials of the scores, and the masked probabilities.
    attention += 2 * tokens * config.num_heads * config.context_length
    ffn = stream + HIDDEN_ARRAYS[config.ffn] * hidden
    output_head = stream
    # Each block's values before they are mixed.
    is_mixed = config.value_residual and config.num_layers > 1
    unmixed = config.num_layers * tokens * config.d_kv if is_mixed else 0
    num_parameters = total(parameters(config))
    weights = {
        "weights": num_parameters,
        "gradients": num_parameters,
        "optimizer state": 2 * num_parameters,
    }
    activations = {
        "activations: attention": config.num_layers * attention + unmixed,
        "activations: feed-forward": config.num_layers * ffn,
        "activations: norms, head": num_norms(config) * ARRAYS_PER_NORM * stream + output_head,
        "activations: logits and loss": 4 * tokens * config.vocab_size,
    }
    floats = weights | activations
    return {part: FLOAT32_BYTES * count for part, count in floats.items()}


def inference_memory(config: ModelConfig) -> Parts:
    """Count the bytes that generating a text in float32 holds when the context is full, by part."""
    text = {
        "KV cache": 2 * config.num_layers * config.context_length * config.d_kv,
        "logits": config.vocab_size,
    }
    values = {"weights": total(parameters(config))} | text
    return {part: FLOAT32_BYTES * count for part, count in values.items()}


def total(parts: Parts) -> int:
    """Add up the parts."""
    return sum(parts.values())


def seconds(flops: float, peak_flops_per_s: float, utilisation: float) -> float:
    """Return how long some work takes on hardware of a given peak.

    Args:
        flops: Floating-point operations.
        peak_flops_per_s: Peak of the hardware.
        utilisation: The share of the peak that is reached, in (0, 1].

    Raises:
        ValueError: The peak is not positive, or the share is out of its range.
    """
    if peak_flops_per_s <= 0:
        raise ValueError(f"peak_flops_per_s={peak_flops_per_s} must be greater than 0")
    if not 0 < utilisation <= 1:
        raise ValueError(f"utilisation={utilisation} must be greater than 0 and at most 1")
    return flops / (peak_flops_per_s * utilisation)


def utilisation_of(config: ModelConfig, tokens_per_s: float, peak_flops_per_s: float) -> float:
    """Return the model FLOPs utilisation (MFU) of training at a measured speed.

    Chowdhery et al. 2022, appendix B (https://arxiv.org/abs/2204.02311): only the operations that
    the model needs count, not those that are computed twice to save memory.
    """
    if peak_flops_per_s <= 0:
        raise ValueError(f"peak_flops_per_s={peak_flops_per_s} must be greater than 0")
    flops_per_token = total(training_flops(config, batch_size=1)) / config.context_length
    return tokens_per_s * flops_per_token / peak_flops_per_s
