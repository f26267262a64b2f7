"""Mistakes in the functions and layers below the Transformer block."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from oracles.model import (
    Array,
    angles,
    attention,
    cross_entropy,
    linear,
    rotate,
    rounded,
    sigmoid,
    silu,
    softmax,
    wide,
)

Answers = dict[str, Any]


def quietly(answers: Callable[..., Any]) -> Callable[..., Any]:
    """Let a mistake overflow or divide by zero as the real one would."""

    def compute(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return answers(*args, **kwargs)

    return compute


def linear_layer(x: Array, weight: Array) -> Answers:
    answers = {"the weight is ignored": wide(x)[..., : weight.shape[0]]}
    if weight.shape[0] == weight.shape[1]:
        answers["the weight is transposed: it is stored (d_out, d_in), so x W^T"] = linear(
            x, weight.T
        )
    return answers


@quietly
def silu_values(x: Array) -> Answers:
    x = wide(x)
    naive = np.float32(1) / (np.float32(1) + np.exp(-x.astype(np.float32)))
    return {
        "only the sigmoid is returned, without the factor x": sigmoid(x),
        "ReLU stands in for SiLU": np.maximum(x, 0),
        "GELU stands in for SiLU": x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
        "the tanh form of GELU stands in for SiLU": gelu_tanh(x),
        "exp overflows for large inputs, as in exp(x) / (1 + exp(x))": x
        * (np.exp(x.astype(np.float32)) / (1 + np.exp(x.astype(np.float32)))),
        "exp(-x) overflows and inf is divided by inf": x * naive * np.exp(-x) / np.exp(-x),
    }


def gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def swiglu(x: Array, w1: Array, w2: Array, w3: Array) -> Answers:
    gate, value = linear(x, w1), linear(x, w3)
    gelu = silu_values(gate)["GELU stands in for SiLU"]
    return {
        "W1 and W3 are swapped: SiLU belongs on W1 x": linear(gate * silu(value), w2),
        "ReLU is the gate (that is ReGLU)": linear(np.maximum(gate, 0) * value, w2),
        "GELU is the gate (that is GeGLU)": linear(gelu * value, w2),
        "the tanh form of GELU is the gate (that is GeGLU)": linear(gelu_tanh(gate) * value, w2),
        "a plain sigmoid is the gate (that is GLU)": linear(sigmoid(gate) * value, w2),
        "there is no activation (that is a bilinear layer)": linear(gate * value, w2),
        "W3 is left out": linear(silu(gate), w2),
        "the two branches are added instead of multiplied": linear(silu(gate) + value, w2),
        "SiLU is applied to the product": linear(silu(gate * value), w2),
    }


@quietly
def rms_norm(x: Array, weight: Array, eps: float) -> Answers:
    x, weight = wide(x), wide(weight)
    square = np.mean(x**2, -1, keepdims=True)
    centred = x - x.mean(-1, keepdims=True)
    variance = np.mean(centred**2, -1, keepdims=True)
    answers = {
        "the mean is subtracted before squaring (that is LayerNorm, not RMSNorm)": centred
        / np.sqrt(variance + eps)
        * weight,
        "x is divided by its standard deviation: the mean must not be subtracted": x
        / np.sqrt(variance + eps)
        * weight,
        "the squares are summed, not averaged": x / np.sqrt(x.shape[-1] * square + eps) * weight,
        "eps is added outside the root": x / (np.sqrt(square) + eps) * weight,
        "eps is missing": x / np.sqrt(square) * weight,
        "the gain is forgotten": x / np.sqrt(square + eps),
        "the gain is added instead of multiplied": x / np.sqrt(square + eps) + weight,
        "the gain is 1 + weight": x / np.sqrt(square + eps) * (1 + weight),
        "the root is missing": x / (square + eps) * weight,
        "eps is squared": x / np.sqrt(square + eps**2) * weight,
        "the mean of |x| stands in for the root of the mean square": x
        / (np.abs(x).mean(-1, keepdims=True) + eps)
        * weight,
        "one norm is taken over the whole tensor": x / np.sqrt(np.mean(x**2) + eps) * weight,
    }
    for other in (1e-5, 1e-6, 1e-8, 1e-12):
        if other != eps:
            answers[f"eps is always {other:g} and the argument is ignored"] = (
                x / np.sqrt(square + other) * weight
            )
    for axis in range(x.ndim - 1):
        answers[f"the mean is taken over axis {axis}, not over the last one"] = (
            x / np.sqrt(np.mean(x**2, axis, keepdims=True) + eps) * weight
        )
    return answers


@quietly
def softmax_values(x: Array, dim: int) -> Answers:
    narrow = np.asarray(x, np.float32)
    naive = np.exp(narrow)
    shifted = np.exp(narrow - narrow.max())
    answers = {
        "the maximum is not subtracted first, so exp overflows or underflows": naive
        / naive.sum(dim, keepdims=True),
        "the maximum is taken over the whole tensor, not along dim, so slices underflow": shifted
        / shifted.sum(dim, keepdims=True),
        "the sum runs over the whole tensor": shifted / shifted.sum(),
        "the logarithm is returned (log-softmax)": np.log(softmax(x, dim)),
        "the minimum is subtracted instead of the maximum": np.exp(
            narrow - narrow.min(dim, keepdims=True)
        )
        / np.exp(narrow - narrow.min(dim, keepdims=True)).sum(dim, keepdims=True),
        "exp is not divided by its sum": np.exp(wide(x) - wide(x).max(dim, keepdims=True)),
    }
    for other in range(np.ndim(x)):
        if other != dim % np.ndim(x):
            answers[f"dim is ignored: the sum runs along axis {other}"] = softmax(x, other)
    return answers


@quietly
def cross_entropy_value(logits: Array, targets: Array) -> Answers:
    mean = cross_entropy(logits, targets)
    count = max(np.size(targets), 1)
    narrow = np.asarray(logits, np.float32)
    picked = np.take_along_axis(narrow, targets[..., None], -1)[..., 0]
    p = np.take_along_axis(softmax(logits, -1).astype(np.float32), targets[..., None], -1)
    answers = {
        "the losses are summed, not averaged": mean * count,
        "the loss is in bits: use the natural logarithm": mean / math.log(2),
        "the sign is wrong": -mean,
        "the softmax underflows before its logarithm is taken: cancel log and exp": np.mean(
            -np.log(p)
        ),
        "the maximum is not subtracted first, so exp overflows": np.mean(
            np.log(np.exp(narrow).sum(-1)) - picked
        ),
        "the softmax is applied twice: the inputs are logits already": cross_entropy(
            softmax(logits, -1), targets
        ),
        "probabilities are averaged, then the logarithm is taken": -np.log(np.mean(p)),
        "only the target's logit is used, without the normaliser": -np.mean(picked),
        "a small constant is added inside the logarithm": np.mean(-np.log(wide(p) + 1e-8)),
        "the sum is divided by vocab_size too": mean / logits.shape[-1],
    }
    if np.ndim(targets) > 1:
        answers["the losses are averaged over the first axis only"] = (
            mean * count / targets.shape[0]
        )
        answers["the losses are averaged over the last axis only, then summed"] = (
            mean * count / targets.shape[-1]
        )
    return answers


@quietly
def scaled_attention(q: Array, k: Array, v: Array, mask: Array | None = None) -> Answers:
    q, k, v = wide(q), wide(k), wide(v)
    scores = np.einsum("...qd,...kd->...qk", q, k)
    d_k, d_v, keys = q.shape[-1], v.shape[-1], k.shape[-2]
    seen = np.ones(scores.shape, bool) if mask is None else np.broadcast_to(mask, scores.shape)

    def scaled(factor: float) -> Array:
        return attention(q * factor * math.sqrt(d_k), k, v, mask)

    over_queries = np.where(seen, np.exp(scores / math.sqrt(d_k)), 0)
    weights = softmax(scores / math.sqrt(d_k), -1)
    answers = {
        "the scores are not scaled: divide by sqrt(d_k)": scaled(1),
        "the scores are divided by d_k, not by its root": scaled(1 / d_k),
        "the scores are divided by sqrt(d_v), not sqrt(d_k)": scaled(1 / math.sqrt(d_v)),
        "the scores are divided by the root of the number of keys": scaled(1 / math.sqrt(keys)),
        "the scores are multiplied by sqrt(d_k)": scaled(math.sqrt(d_k)),
        "the softmax runs over the queries, not the keys": (
            over_queries / over_queries.sum(-2, keepdims=True)
        )
        @ v,
    }
    if mask is None:
        causal_mask = np.tril(np.ones(scores.shape[-2:], bool))
        answers["a causal mask is applied although mask is None"] = attention(q, k, v, causal_mask)
        return answers
    scores = scores / math.sqrt(d_k)
    return (
        answers
        | {
            "the mask is inverted: True means may attend": attention(q, k, v, ~seen),
            "the mask is ignored": attention(q, k, v),
            "the mask is added to the scores as 0 and 1": softmax(scores + seen, -1) @ v,
            "the mask is multiplied after the softmax: the rest no longer sums to 1": (
                weights * seen
            )
            @ v,
            "masked scores are multiplied by 0 or set to 0, which is no ban: use -inf": softmax(
                np.where(seen, scores, 0), -1
            )
            @ v,
        }
        | {
            f"masked scores are set to {fill:g}, which some scores are below: use -inf": softmax(
                np.where(seen, scores, fill), -1
            )
            @ v
            for fill in (-1e2, -1e3, -1e4)
        }
    )


def rope(x: Array, positions: Array, theta: float) -> Answers:
    x, d_k = wide(x), x.shape[-1]
    right = angles(positions, d_k, theta)
    pair = np.arange(d_k // 2)
    place = wide(positions)[..., None]
    half = np.concatenate([x[..., 0::2], x[..., 1::2]], -1)  # pairs that lie d_k/2 apart
    split = rotate_halves(x, right)
    narrow = rounded(right, "bfloat16")
    answers = {
        "the pairs are (i, i + d_k/2) instead of (2i, 2i+1)": split,
        "the rotated halves are joined end to end: interleave them again": rotate_halves(
            half, right
        ),
        "positions are counted from 1": rotate(x, angles(np.asarray(positions) + 1, d_k, theta)),
        "the rotation goes the wrong way (check the sign of sin)": rotate(x, -right),
        "the exponent is off by one: theta**(2i/d_k) with i from 0": rotate(
            x, place / theta ** (2 * (pair + 1) / d_k)
        ),
        "the exponent is 2(i-1)/d_k with i from 0: the paper counts from 1": rotate(
            x, place / theta ** (2 * (pair - 1) / d_k)
        ),
        "the exponent is i/d_k instead of 2i/d_k": rotate(x, place / theta ** (pair / d_k)),
        "the exponent is 4i/d_k instead of 2i/d_k": rotate(x, place / theta ** (4 * pair / d_k)),
        "the angle is multiplied by theta's power, not divided": rotate(
            x, place * theta ** (2 * pair / d_k)
        ),
        "token_positions are ignored: rows are taken to be 0, 1, 2, ...": rotate(
            x, angles(np.arange(x.shape[-2]), d_k, theta)
        ),
        "nothing is rotated": x,
        "theta is ignored (10000 instead)": rotate(x, angles(positions, d_k, 10000.0)),
        "the angles are computed in bfloat16: keep them in float32": rotate(x, narrow),
    }
    if np.ndim(positions) > 1:
        first = np.asarray(positions)[:1]
        answers["every batch row gets the positions of the first one"] = rotate(
            x, angles(np.broadcast_to(first, np.shape(positions)), d_k, theta)
        )
    return answers


def rotate_halves(x: Array, angle: Array) -> Array:
    middle = x.shape[-1] // 2
    turned = (x[..., :middle] + 1j * x[..., middle:]) * np.exp(1j * angle)
    return np.concatenate([turned.real, turned.imag], -1)
