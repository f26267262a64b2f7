"""The only glue between an implementation and the examination: construct, load weights, call.

Point these 21 functions at your own code. One that is not written yet raises NotImplementedError
and is reported as "not started". The examination asks for nothing else; train.py and generate.py
also import, by their names, the functions and classes that docs/learn.md tells you to write.
If your edition has a folder docs/contract, its pages go before what is said here.
"""

from collections.abc import Iterable, Iterator
from os import PathLike
from typing import IO, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class TokenizerLike(Protocol):
    """What the examination calls on a tokenizer."""

    def encode(self, text: str) -> list[int]: ...

    def encode_iterable(self, iterable: Iterable[str]) -> Iterator[int]: ...

    def decode(self, ids: list[int]) -> str: ...


def run_linear(
    d_in: int,
    d_out: int,
    weights: Float[Tensor, "d_out d_in"],
    in_features: Float[Tensor, "... d_in"],
) -> Float[Tensor, "... d_out"]:
    """Return your bias-free linear layer's output, `x W^T`."""
    from cs_basics.layers import Linear

    linear = Linear(d_in, d_out, device=weights.device, dtype=weights.dtype)
    linear.load_state_dict({"weight": weights})
    return linear(in_features)


def run_embedding(
    vocab_size: int,
    d_model: int,
    weights: Float[Tensor, "vocab_size d_model"],
    token_ids: Int[Tensor, "..."],
) -> Float[Tensor, "... d_model"]:
    """Return one row of `weights` for each token id."""
    from cs_basics.layers import Embedding

    embedding = Embedding(vocab_size, d_model, device=weights.device, dtype=weights.dtype)
    embedding.load_state_dict({"weight": weights})
    return embedding(token_ids)


def run_swiglu(
    d_model: int,
    d_ff: int,
    w1_weight: Float[Tensor, "d_ff d_model"],
    w2_weight: Float[Tensor, "d_model d_ff"],
    w3_weight: Float[Tensor, "d_ff d_model"],
    in_features: Float[Tensor, "... d_model"],
) -> Float[Tensor, "... d_model"]:
    """Return your feed-forward network's output, `W2 (SiLU(W1 x) * W3 x)`."""
    from cs_basics.layers import SwiGLU

    swiglu = SwiGLU(d_model, d_ff, device=w1_weight.device, dtype=w1_weight.dtype)
    swiglu.load_state_dict({"w1.weight": w1_weight, "w2.weight": w2_weight, "w3.weight": w3_weight})
    return swiglu(in_features)


def run_scaled_dot_product_attention(
    Q: Float[Tensor, "... queries d_k"],  # noqa: N803
    K: Float[Tensor, "... keys d_k"],  # noqa: N803
    V: Float[Tensor, "... keys d_v"],  # noqa: N803
    mask: Bool[Tensor, "... queries keys"] | None = None,
) -> Float[Tensor, "... queries d_v"]:
    """Return the attended values; a query may see a key where `mask` is True, or all if None."""
    from cs_basics.functional import scaled_dot_product_attention

    return scaled_dot_product_attention(Q, K, V, mask)


def run_multihead_self_attention(
    d_model: int,
    num_heads: int,
    q_proj_weight: Float[Tensor, "d_model d_model"],
    k_proj_weight: Float[Tensor, "d_model d_model"],
    v_proj_weight: Float[Tensor, "d_model d_model"],
    o_proj_weight: Float[Tensor, "d_model d_model"],
    in_features: Float[Tensor, "... seq d_model"],
) -> Float[Tensor, "... seq d_model"]:
    """Return your causal multi-head self-attention's output, without position embedding.

    Rows of the first three weights are grouped by head: the first d_model / num_heads rows of
    `q_proj_weight` make the queries of head 0, and so on.
    """
    from cs_basics.attention import CausalSelfAttention

    attention = CausalSelfAttention(
        d_model, num_heads, device=q_proj_weight.device, dtype=q_proj_weight.dtype
    )
    attention.load_state_dict(
        {
            "q_proj.weight": q_proj_weight,
            "k_proj.weight": k_proj_weight,
            "v_proj.weight": v_proj_weight,
            "output_proj.weight": o_proj_weight,
        }
    )
    return attention(in_features)


def run_multihead_self_attention_with_rope(
    d_model: int,
    num_heads: int,
    max_seq_len: int,
    theta: float,
    q_proj_weight: Float[Tensor, "d_model d_model"],
    k_proj_weight: Float[Tensor, "d_model d_model"],
    v_proj_weight: Float[Tensor, "d_model d_model"],
    o_proj_weight: Float[Tensor, "d_model d_model"],
    in_features: Float[Tensor, "... seq d_model"],
    token_positions: Int[Tensor, "... seq"] | None = None,
) -> Float[Tensor, "... seq d_model"]:
    """Return the same with RoPE on the queries and keys of each head.

    Positions are 0, 1, 2, ... where `token_positions` is None; every batch row may have its own.
    """
    from cs_basics.attention import CausalSelfAttention
    from cs_basics.rope import RotaryPositionalEmbedding

    rope = RotaryPositionalEmbedding(
        theta, d_model // num_heads, max_seq_len, device=q_proj_weight.device
    )
    attention = CausalSelfAttention(
        d_model, num_heads, rope, device=q_proj_weight.device, dtype=q_proj_weight.dtype
    )
    attention.load_state_dict(
        {
            "q_proj.weight": q_proj_weight,
            "k_proj.weight": k_proj_weight,
            "v_proj.weight": v_proj_weight,
            "output_proj.weight": o_proj_weight,
        }
    )
    return attention(in_features, token_positions)


def run_rope(
    d_k: int,
    theta: float,
    max_seq_len: int,
    in_query_or_key: Float[Tensor, "... seq d_k"],
    token_positions: Int[Tensor, "... seq"],
) -> Float[Tensor, "... seq d_k"]:
    """Return queries or keys with the pair (2i, 2i+1) turned by `position / theta**(2i/d_k)`."""
    from cs_basics.rope import RotaryPositionalEmbedding

    rope = RotaryPositionalEmbedding(theta, d_k, max_seq_len, device=in_query_or_key.device)
    return rope(in_query_or_key, token_positions)


def run_transformer_block(
    d_model: int,
    num_heads: int,
    d_ff: int,
    max_seq_len: int,
    theta: float,
    weights: dict[str, Tensor],
    in_features: Float[Tensor, "batch seq d_model"],
) -> Float[Tensor, "batch seq d_model"]:
    """Return your pre-norm Transformer block's output, RoPE included.

    `weights` has the keys `attn.{q,k,v,output}_proj.weight`, `ln1.weight`, `ffn.{w1,w2,w3}.weight`
    and `ln2.weight`; positions are 0, 1, 2, ...
    """
    from cs_basics.rope import RotaryPositionalEmbedding
    from cs_basics.transformer import TransformerBlock

    some = weights["ln1.weight"]
    rope = RotaryPositionalEmbedding(theta, d_model // num_heads, max_seq_len, device=some.device)
    block = TransformerBlock(d_model, num_heads, d_ff, rope, device=some.device, dtype=some.dtype)
    block.load_state_dict(weights)
    return block(in_features)


def run_transformer_lm(
    vocab_size: int,
    context_length: int,
    d_model: int,
    num_layers: int,
    num_heads: int,
    d_ff: int,
    rope_theta: float,
    weights: dict[str, Tensor],
    in_indices: Int[Tensor, "batch seq"],
) -> Float[Tensor, "batch seq vocab_size"]:
    """Return your language model's logits (not probabilities) for each next token.

    `weights` has the keys `token_embeddings.weight`, `layers.{i}.` + those of a block,
    `ln_final.weight` and `lm_head.weight`; seq is at most `context_length`.
    """
    from cs_basics.transformer import TransformerLM

    some = weights["ln_final.weight"]
    model = TransformerLM(
        vocab_size,
        context_length,
        d_model,
        num_layers,
        num_heads,
        d_ff,
        rope_theta,
        device=some.device,
        dtype=some.dtype,
    )
    model.load_state_dict(weights)
    return model(in_indices)


def run_rmsnorm(
    d_model: int,
    eps: float,
    weights: Float[Tensor, " d_model"],
    in_features: Float[Tensor, "... d_model"],
) -> Float[Tensor, "... d_model"]:
    """Return `x / sqrt(mean(x^2) + eps) * weights`, computed in float32, in the dtype of x."""
    from cs_basics.norms import RMSNorm

    norm = RMSNorm(d_model, eps, device=weights.device, dtype=weights.dtype)
    norm.load_state_dict({"weight": weights})
    return norm(in_features)


def run_silu(in_features: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return `x * sigmoid(x)` for each element."""
    from cs_basics.functional import silu

    return silu(in_features)


def run_get_batch(
    dataset: npt.NDArray[np.integer], batch_size: int, context_length: int, device: str
) -> tuple[Int[Tensor, "batch_size context_length"], Int[Tensor, "batch_size context_length"]]:
    """Return random windows of `dataset` and the same windows one token later.

    Both are int64 on `device`; every start that leaves room for a whole window is equally likely.
    """
    from cs_basics.data import get_batch

    return get_batch(dataset, batch_size, context_length, device)


def run_softmax(in_features: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
    """Return probabilities that sum to 1 along `dim`, finite for logits of any size."""
    from cs_basics.functional import softmax

    return softmax(in_features, dim)


def run_cross_entropy(
    inputs: Float[Tensor, "... vocab_size"], targets: Int[Tensor, "..."]
) -> Float[Tensor, ""]:
    """Return the mean of `-log softmax(inputs)[target]` in nats, over all leading axes."""
    from cs_basics.functional import cross_entropy

    return cross_entropy(inputs, targets)


def run_gradient_clipping(parameters: Iterable[torch.nn.Parameter], max_l2_norm: float) -> None:
    """Scale all gradients in place if their joint L2 norm exceeds `max_l2_norm`.

    The factor is `max_l2_norm / (norm + 1e-6)`; parameters without a gradient are skipped.
    """
    from cs_basics.optim import clip_grad_norm

    clip_grad_norm(parameters, max_l2_norm)


def get_adamw_cls() -> type[torch.optim.Optimizer]:
    """Return your AdamW, a `torch.optim.Optimizer` taking params, lr, betas, eps, weight_decay."""
    from cs_basics.optim import AdamW

    return AdamW


def run_get_lr_cosine_schedule(
    it: int,
    max_learning_rate: float,
    min_learning_rate: float,
    warmup_iters: int,
    cosine_cycle_iters: int,
) -> float:
    """Return the learning rate at iteration `it`: linear warm-up, cosine, then the minimum."""
    from cs_basics.optim import cosine_schedule

    return cosine_schedule(
        it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters
    )


def run_save_checkpoint(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    iteration: int,
    out: str | PathLike[str] | BinaryIO | IO[bytes],
) -> None:
    """Write everything that resuming needs to a path or a binary file object."""
    from cs_basics.checkpoint import save_checkpoint

    save_checkpoint(model, optimizer, iteration, out)


def run_load_checkpoint(
    src: str | PathLike[str] | BinaryIO | IO[bytes],
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
) -> int:
    """Restore model and optimizer from a checkpoint and return its iteration."""
    from cs_basics.checkpoint import load_checkpoint

    return load_checkpoint(src, model, optimizer)


def get_tokenizer(
    vocab: dict[int, bytes],
    merges: list[tuple[bytes, bytes]],
    special_tokens: list[str] | None = None,
) -> TokenizerLike:
    """Return your byte-pair-encoding tokenizer; `merges` are in the order of their creation."""
    from cs_basics.tokenizer import Tokenizer

    return Tokenizer(vocab, merges, special_tokens)


def run_train_bpe(
    input_path: str | PathLike[str],
    vocab_size: int,
    special_tokens: list[str],
    **kwargs: object,
) -> tuple[dict[int, bytes], list[tuple[bytes, bytes]]]:
    """Return the vocabulary and the merges, in order, learned from the text at `input_path`.

    The vocabulary holds the 256 bytes, the special tokens and one token for each merge.
    """
    from cs_basics.bpe import train_bpe

    return train_bpe(input_path, vocab_size, special_tokens, **kwargs)
