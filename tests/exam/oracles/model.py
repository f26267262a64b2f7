"""Functions, layers and the model, and the gradients of any of them."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from oracles import CHOSEN

Array = npt.NDArray[Any]
Weights = Mapping[str, Array]


def wide(x: Array) -> Array:
    return np.asarray(x, np.float64)


def rounded(x: Array, dtype: str) -> Array:
    """Round to a narrow float type, keeping float32 as the container."""
    x = np.asarray(x, np.float32)
    if dtype == "float16":
        return x.astype(np.float16).astype(np.float32)
    if dtype == "bfloat16":  # The upper half of a float32, to the nearest, ties to even.
        bits = x.view(np.uint32).astype(np.uint64)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        return bits.astype(np.uint32).view(np.float32)
    return x


# --- gradients ---


def gradient(function: Callable[[Array], Array], x: Array, cotangent: Array) -> Array:
    """Differentiate sum(function(x) * cotangent) by central differences."""
    x = wide(x).copy()
    step = 1e-6
    result = np.empty_like(x)
    for place in np.ndindex(x.shape):
        kept = x[place]
        x[place] = kept + step
        above = function(x)
        x[place] = kept - step
        below = function(x)
        x[place] = kept
        result[place] = np.sum((above - below) * cotangent) / (2 * step)
    return result


def slope(
    function: Callable[[Array], Array], x: Array, direction: Array, cotangent: Array
) -> float:
    """Differentiate sum(function(x) * cotangent) along one direction."""
    step = 1e-5 * direction
    difference = function(wide(x) + step) - function(wide(x) - step)
    return float(np.sum(difference * cotangent) / 2e-5)


# --- functions and layers ---


def linear(x: Array, weight: Array) -> Array:
    return np.einsum("...i,oi->...o", wide(x), wide(weight))


def embedding(token_ids: Array, weight: Array) -> Array:
    return np.take(wide(weight), token_ids, axis=0)


def sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0, -wide(x)))


def silu(x: Array) -> Array:
    return wide(x) * sigmoid(x)


def swiglu(x: Array, w1: Array, w2: Array, w3: Array) -> Array:
    gate, value = (w3, w1) if "gate_w3" in CHOSEN else (w1, w3)
    return linear(silu(linear(x, gate)) * linear(x, value), w2)


def softmax(x: Array, dim: int) -> Array:
    shifted = np.exp(wide(x) - np.max(wide(x), axis=dim, keepdims=True))
    return shifted / np.sum(shifted, axis=dim, keepdims=True)


def cross_entropy(logits: Array, targets: Array) -> Array:
    chosen = np.take_along_axis(wide(logits), np.asarray(targets)[..., None], -1)[..., 0]
    return np.mean(np.logaddexp.reduce(wide(logits), axis=-1) - chosen)


def rmsnorm(x: Array, weight: Array, eps: float) -> Array:
    mean_square = np.mean(wide(x) ** 2, axis=-1, keepdims=True)
    return wide(x) / np.sqrt(mean_square + eps) * gain(weight)


def gain(weight: Array) -> Array:
    """What a norm with this weight multiplies by."""
    return wide(weight) + ("gain_one_plus" in CHOSEN)


def fresh_weight() -> float:
    """The weight of a norm that is a gain of 1."""
    return 1.0 - ("gain_one_plus" in CHOSEN)


def angles(positions: Array, d_k: int, theta: float) -> Array:
    pair = np.arange(d_k // 2)
    return wide(positions)[..., None] / theta ** (2 * pair / d_k)


def rotate(x: Array, angle: Array, *, is_other: bool = False) -> Array:
    """Turn pair i of x by angle[..., i]; `is_other`: by the convention that is not chosen."""
    are_halves = ("rope_halves" in CHOSEN) != is_other
    return (rotate_halves if are_halves else rotate_neighbours)(wide(x), angle)


def rotate_neighbours(x: Array, angle: Array) -> Array:
    """Turn the pairs (2i, 2i+1), as complex numbers."""
    turned = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)
    return np.stack([turned.real, turned.imag], axis=-1).reshape((*turned.shape[:-1], -1))


def rotate_halves(x: Array, angle: Array) -> Array:
    """Turn the pairs (i, i + d_k/2)."""
    middle = x.shape[-1] // 2
    turned = (x[..., :middle] + 1j * x[..., middle:]) * np.exp(1j * angle)
    return np.concatenate([turned.real, turned.imag], -1)


def rope(x: Array, positions: Array, theta: float) -> Array:
    return rotate(x, angles(positions, x.shape[-1], theta))


def attention(q: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
    """Attend; a query that may see nothing gets zeros."""
    scores = np.einsum("...qd,...kd->...qk", wide(q), wide(k)) / math.sqrt(q.shape[-1])
    if mask is None:
        return softmax(scores, -1) @ wide(v)
    scores = np.where(mask, scores, -np.inf)
    top = np.max(scores, axis=-1, keepdims=True, initial=-1e300)
    chance = np.exp(scores - top)
    total = np.sum(chance, axis=-1, keepdims=True)
    return np.divide(chance, total, out=np.zeros_like(chance), where=total > 0) @ wide(v)


def causal(length: int) -> Array:
    return np.tril(np.ones((length, length), bool))


def split_heads(x: Array, num_heads: int) -> Array:
    split = x.reshape((*x.shape[:-1], num_heads, x.shape[-1] // num_heads))
    return np.swapaxes(split, -2, -3)


def merge_heads(x: Array) -> Array:
    merged = np.swapaxes(x, -2, -3)
    return merged.reshape((*merged.shape[:-2], -1))


def multihead(
    x: Array, weights: Weights, num_heads: int, turn: Callable[[Array], Array] = wide
) -> Array:
    """Causal self-attention; `turn` rotates queries and keys, (..., heads, seq, d_head)."""
    q, k, v = (split_heads(linear(x, weights[name]), num_heads) for name in "qkv")
    mixed = attention(turn(q), turn(k), v, causal(x.shape[-2]))
    return linear(merge_heads(mixed), weights["o"])


def multihead_with_rope(
    x: Array,
    weights: Weights,
    num_heads: int,
    theta: float,
    positions: Array | None = None,
) -> Array:
    if positions is None:
        positions = np.arange(x.shape[-2])
    same_for_all_heads = np.asarray(positions)[..., None, :]
    return multihead(x, weights, num_heads, lambda z: rope(z, same_for_all_heads, theta))


# --- block and model (weights by their state-dict keys) ---


BLOCK_EPS = 1e-5


def attention_weights(weights: Weights) -> dict[str, Array]:
    names = {"q": "q", "k": "k", "v": "v", "o": "output"}
    return {short: weights[f"attn.{name}_proj.weight"] for short, name in names.items()}


def block_parts(
    weights: Weights, num_heads: int, theta: float
) -> tuple[Callable[[Array], Array], ...]:
    """The four functions that a block is made of: ln1, attention, ln2, feed-forward."""
    attn = attention_weights(weights)
    ffn = [weights[f"ffn.{name}.weight"] for name in ("w1", "w2", "w3")]
    return (
        lambda x: rmsnorm(x, weights["ln1.weight"], BLOCK_EPS),
        lambda x: multihead_with_rope(x, attn, num_heads, theta),
        lambda x: rmsnorm(x, weights["ln2.weight"], BLOCK_EPS),
        lambda x: swiglu(x, *ffn),
    )


def transformer_block(x: Array, weights: Weights, num_heads: int, theta: float) -> Array:
    ln1, attn, ln2, ffn = block_parts(weights, num_heads, theta)
    x = wide(x) + attn(ln1(x))
    return x + ffn(ln2(x))


def layer_weights(weights: Weights, layer: int) -> dict[str, Array]:
    prefix = f"layers.{layer}."
    return {
        key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)
    }


def transformer_lm(
    token_ids: Array, weights: Weights, num_layers: int, num_heads: int, theta: float
) -> Array:
    x = embedding(token_ids, weights["token_embeddings.weight"])
    for layer in range(num_layers):
        x = transformer_block(x, layer_weights(weights, layer), num_heads, theta)
    x = rmsnorm(x, weights["ln_final.weight"], BLOCK_EPS)
    return linear(x, weights["lm_head.weight"])
