"""Inputs to look for a mistake with: small ones for paper, and ones in which nothing is alike."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from oracles.model import Array

Arguments = dict[str, Any]
Draw = Callable[..., Array]
"""Draws an array of a shape."""


def silu(draw: Draw, *shape: int) -> Arguments:
    return {"in_features": draw(*shape)}


def softmax(draw: Draw, dim: int, *shape: int) -> Arguments:
    return {"in_features": draw(*shape), "dim": dim}


def cross_entropy(draw: Draw, *shape: int) -> Arguments:
    targets = np.arange(np.prod(shape[:-1], dtype=int)).reshape(shape[:-1]) % shape[-1]
    return {"inputs": draw(*shape), "targets": targets[..., ::-1].copy()}


def attention(
    draw: Draw, leading: tuple[int, ...], queries: int, keys: int, d_k: int, d_v: int, masked: bool
) -> Arguments:
    mask = np.arange(keys) <= np.arange(queries)[:, None] + max(keys - queries, 0)
    mask = np.broadcast_to(mask, (*leading, queries, keys)).copy()
    mask[..., -1, 0] = queries == 1  # No triangle, which could be taken for a causal mask.
    return {
        "Q": draw(*leading, queries, d_k),
        "K": draw(*leading, keys, d_k),
        "V": draw(*leading, keys, d_v),
        "mask": mask if masked else None,
    }


def linear(draw: Draw, d_in: int, d_out: int, *leading: int) -> Arguments:
    x, weight = draw(*leading, d_in), draw(d_out, d_in)
    return {"d_in": d_in, "d_out": d_out, "weights": weight, "in_features": x}


def embedding(draw: Draw, vocab_size: int, d_model: int, *shape: int) -> Arguments:
    ids = np.arange(np.prod(shape, dtype=int)).reshape(shape)[..., ::-1] * 3 % vocab_size
    table = draw(vocab_size, d_model)
    return {"vocab_size": vocab_size, "d_model": d_model, "weights": table, "token_ids": ids.copy()}


def rmsnorm(draw: Draw, d_model: int, eps: float, *leading: int) -> Arguments:
    x, gain = draw(*leading, d_model), draw(d_model)
    return {"d_model": d_model, "eps": eps, "weights": gain, "in_features": x}


def swiglu(draw: Draw, d_model: int, d_ff: int, *leading: int) -> Arguments:
    return {
        "d_model": d_model,
        "d_ff": d_ff,
        "w1_weight": draw(d_ff, d_model),
        "w2_weight": draw(d_model, d_ff),
        "w3_weight": draw(d_ff, d_model),
        "in_features": draw(*leading, d_model),
    }


def rope(draw: Draw, leading: tuple[int, ...], positions: list[int], d_k: int) -> Arguments:
    places = np.array(positions)
    if leading:
        places = np.broadcast_to(places, (*leading, len(positions))).copy()
        places += 2 * np.arange(np.prod(leading)).reshape((*leading, 1))
    return {
        "d_k": d_k,
        "theta": 100.0,
        "max_seq_len": int(places.max()) + 3,
        "in_query_or_key": draw(*leading, len(positions), d_k),
        "token_positions": places,
    }


def multihead(draw: Draw, num_heads: int, d_head: int, batch: int, seq: int) -> Arguments:
    d_model = num_heads * d_head
    names = [f"{name}_proj_weight" for name in "qkvo"]
    return {
        "d_model": d_model,
        "num_heads": num_heads,
        **{name: draw(d_model, d_model) for name in names},
        "in_features": draw(batch, seq, d_model),
    }


def multihead_with_rope(draw: Draw, num_heads: int, d_head: int, batch: int, seq: int) -> Arguments:
    turning = {"max_seq_len": seq + 4, "theta": 100.0, "token_positions": np.arange(seq) + 1}
    return multihead(draw, num_heads, d_head, batch, seq) | turning


def block_weights(draw: Draw, d_model: int, d_ff: int) -> dict[str, Array]:
    names = [f"attn.{name}_proj.weight" for name in ("q", "k", "v", "output")]
    return {
        **{name: draw(d_model, d_model) for name in names},
        "ln1.weight": 1 + np.abs(draw(d_model)),
        "ffn.w1.weight": draw(d_ff, d_model),
        "ffn.w2.weight": draw(d_model, d_ff),
        "ffn.w3.weight": draw(d_ff, d_model),
        "ln2.weight": 1 + np.abs(draw(d_model)),
    }


def block(draw: Draw, heads: int, d_head: int, d_ff: int, batch: int, seq: int) -> Arguments:
    d_model = heads * d_head
    return {
        "d_model": d_model,
        "num_heads": heads,
        "d_ff": d_ff,
        "max_seq_len": seq + 2,
        "theta": 100.0,
        "weights": block_weights(draw, d_model, d_ff),
        "in_features": draw(batch, seq, d_model),
    }


def model(
    draw: Draw, layers: int, heads: int, d_head: int, d_ff: int, batch: int, seq: int
) -> Arguments:
    d_model, vocab_size = heads * d_head, 11 if seq > 2 else 3
    weights = {"token_embeddings.weight": draw(vocab_size, d_model)}
    for layer in range(layers):
        own = block_weights(draw, d_model, d_ff)
        weights |= {f"layers.{layer}.{name}": array for name, array in own.items()}
    weights |= {"ln_final.weight": 1 + np.abs(draw(d_model))}
    weights |= {"lm_head.weight": draw(vocab_size, d_model)}
    ids = np.arange(batch * seq).reshape(batch, seq) * 3 % vocab_size
    return {
        "vocab_size": vocab_size,
        "context_length": seq + 2,
        "d_model": d_model,
        "num_layers": layers,
        "num_heads": heads,
        "d_ff": d_ff,
        "rope_theta": 100.0,
        "weights": weights,
        "in_indices": ids,
    }


MAKERS: dict[str, tuple[Callable[..., Arguments], list[tuple[Any, ...]], list[tuple[Any, ...]]]] = {
    "run_silu": (silu, [(1,), (2,)], [(3, 5)]),
    "run_softmax": (
        softmax,
        [(0, 2), (1, 1, 2), (0, 2, 1), (0, 2, 2), (1, 2, 2), (1, 2, 2, 2)],
        [(1, 3, 4, 5), (0, 3, 4), (-1, 4, 3), (-2, 3, 4, 5)],
    ),
    "run_cross_entropy": (cross_entropy, [(1, 2), (2, 2), (2, 3), (1, 2, 2)], [(2, 3, 5), (4, 6)]),
    "run_scaled_dot_product_attention": (
        attention,
        [
            *(((), 1, 2, 1, 1, False), ((), 2, 2, 2, 1, False), ((), 2, 2, 2, 2, True)),
            *(((), 2, 3, 2, 2, False), ((2,), 2, 2, 2, 1, True)),
        ],
        [((2,), 3, 5, 6, 4, True), ((2,), 3, 5, 6, 4, False), ((3, 2), 4, 5, 7, 6, True)],
    ),
    "run_linear": (linear, [(2, 1, 1), (2, 2, 1), (2, 3, 2)], [(4, 6, 2, 3), (5, 3, 4)]),
    "run_embedding": (embedding, [(2, 2, 1), (3, 2, 2), (3, 2, 1, 2)], [(7, 4, 2, 3), (6, 5, 3)]),
    "run_rmsnorm": (
        rmsnorm,
        [(2, 1e-5, 1), (2, 1.0, 1), (2, 1.0, 2), (2, 1.0, 2, 2)],
        [(5, 0.1, 2, 3), (4, 0.3, 3)],
    ),
    "run_swiglu": (swiglu, [(1, 1, 1), (2, 1, 1), (2, 2, 2)], [(4, 7, 2, 3)]),
    "run_rope": (
        rope,
        [((), [0, 1], 2), ((), [1, 2], 2), ((), [0, 1], 4), ((2,), [1, 3], 4)],
        [((2,), [1, 4, 2], 8), ((), [3, 1, 5], 8)],
    ),
    "run_multihead_self_attention": (
        multihead,
        [(1, 1, 1, 2), (1, 2, 1, 2), (2, 1, 1, 2), (2, 2, 1, 2), (2, 2, 2, 3)],
        [(2, 4, 5, 3)],
    ),
    "run_multihead_self_attention_with_rope": (
        multihead_with_rope,
        [(1, 2, 1, 2), (2, 2, 1, 2), (2, 4, 1, 2)],
        [(2, 4, 5, 3)],
    ),
    "run_transformer_block": (block, [(1, 2, 1, 1, 2), (2, 2, 2, 1, 2)], [(2, 4, 10, 5, 3)]),
    "run_transformer_lm": (model, [(1, 1, 2, 1, 1, 2), (2, 2, 2, 2, 1, 2)], [(2, 2, 4, 10, 5, 3)]),
}
"""By adapter: what makes a case, the sizes of small cases, the smallest first, and of others."""


def for_paper(function: str) -> list[Arguments]:
    """Cases of small integers, the smallest first."""
    make, small, _ = MAKERS[function]
    return [
        make(whole_numbers(np.random.default_rng([seed, place])), *sizes)
        for place, sizes in enumerate(small)
        for seed in range(3)
    ]


def for_tracing(function: str) -> Iterator[Arguments]:
    """Cases in which no two numbers are alike, nor two sizes."""
    make, _, large = MAKERS[function]
    for place, sizes in enumerate(large):
        rng = np.random.default_rng(place)

        def draw(*shape: int, rng: np.random.Generator = rng) -> Array:
            return rng.standard_normal(shape).astype(np.float32)

        yield make(draw, *sizes)


def whole_numbers(rng: np.random.Generator) -> Draw:
    return lambda *shape: rng.integers(-1, 3, shape).astype(np.float32)
