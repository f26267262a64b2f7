"""Mistakes in the functions and layers below the Transformer block."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from oracles import CHOSEN
from oracles.model import (
    Array,
    cross_entropy,
    gain,
    linear,
    sigmoid,
    silu,
    softmax,
    wide,
)

Answers = dict[str, Any]


def quietly(answers: Callable[..., Any]) -> Callable[..., Any]:
    """Let a mistake overflow or divide by zero as the real one would."""

    @functools.wraps(answers)  # Known by its own name and module: starter/record_answers.py.
    def compute(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return answers(*args, **kwargs)

    return compute


def linear_layer(x: Array, weight: Array, got: Array | None = None) -> Answers:
    right, (d_out, d_in) = linear(x, weight), weight.shape
    answers = {
        "the output is divided by sqrt(d_in): nothing is scaled": right / math.sqrt(d_in),
        "the output is divided by d_in: nothing is scaled": right / d_in,
        "the output is divided by sqrt(d_out): nothing is scaled": right / math.sqrt(d_out),
        "an activation follows the product: a linear layer has none": [
            np.maximum(right, 0),
            silu(right),
        ],
    }
    if got is not None and got.shape == right.shape and right.size > 2 * d_out:
        off = (got - right).reshape(-1, d_out)
        answers["a bias is added: there is none"] = right + off.mean(0)
    else:
        answers["a bias is added: there is none"] = None  # Of one row anything may be the bias.
    if weight.shape[0] == weight.shape[1]:
        answers["the weight is transposed: it is stored (d_out, d_in), so x W^T"] = linear(
            x, weight.T
        )
    return answers


def embedding(token_ids: Array, table: Array) -> Answers:
    def rows(changed: Array) -> Array:
        return np.take(changed, np.asarray(token_ids) % len(table), axis=0)

    table = wide(table)
    length = np.maximum(np.linalg.norm(table, axis=-1, keepdims=True), 1e-12)
    return {
        "the rows are scaled by sqrt(d_model)": rows(table * math.sqrt(table.shape[1])),
        "token 0 is taken for padding, its row for zeros": rows(
            table * (np.arange(len(table)) > 0)[:, None]
        ),
        "the rows are scaled to length 1": rows(table / length),
        "rows longer than 1 are cut to length 1": rows(table / np.maximum(length, 1)),
        "ids are kept as uint8, which wrap at 256": rows(table[np.arange(len(table)) % 256]),
        "ids are counted from 1": np.take(table, np.maximum(np.asarray(token_ids) - 1, 0), axis=0),
    }


@quietly
def silu_values(x: Array) -> Answers:
    x = wide(x)
    naive = np.float32(1) / (np.float32(1) + np.exp(-x.astype(np.float32)))
    return {
        "only the sigmoid is returned, without the factor x": sigmoid(x),
        "ReLU stands in for SiLU": np.maximum(x, 0),
        "GELU stands in for SiLU": x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
        "the tanh form of GELU stands in for SiLU": gelu_tanh(x),
        "hard swish stands in for SiLU": x * np.clip(x + 3, 0, 6) / 6,
        "the sigmoid is of -x": x * sigmoid(-x),
        "the sigmoid is of 1.702 x (that approximates GELU)": x * sigmoid(1.702 * x),
        "tanh stands in for the sigmoid": x * np.tanh(x),
        "exp overflows for large inputs, as in exp(x) / (1 + exp(x))": x
        * (np.exp(x.astype(np.float32)) / (1 + np.exp(x.astype(np.float32)))),
        "exp(-x) overflows and inf is divided by inf": x * naive * np.exp(-x) / np.exp(-x),
    }


def gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def swiglu(x: Array, w1: Array, w2: Array, w3: Array) -> Answers:
    if "gate_w3" not in CHOSEN:
        return gated_by_w1(x, w1, w2, w3)
    renamed = str.maketrans("13", "31")
    return {what.translate(renamed): y for what, y in gated_by_w1(x, w3, w2, w1).items()}


def gated_by_w1(x: Array, w1: Array, w2: Array, w3: Array) -> Answers:
    gate, value = linear(x, w1), linear(x, w3)
    gelu = silu_values(gate)["GELU stands in for SiLU"]
    return {
        "W1 and W3 are swapped: SiLU belongs on W1 x": linear(gate * silu(value), w2),
        "ReLU is the gate (that is ReGLU)": linear(np.maximum(gate, 0) * value, w2),
        "leaky ReLU is the gate": linear(np.where(gate > 0, gate, 0.01 * gate) * value, w2),
        "GELU is the gate (that is GeGLU)": linear(gelu * value, w2),
        "the tanh form of GELU is the gate (that is GeGLU)": linear(gelu_tanh(gate) * value, w2),
        "a plain sigmoid is the gate (that is GLU)": linear(sigmoid(gate) * value, w2),
        "there is no activation (that is a bilinear layer)": linear(gate * value, w2),
        "W3 is left out": linear(silu(gate), w2),
        "the two branches are added instead of multiplied": linear(silu(gate) + value, w2),
        "SiLU is applied to the product": linear(silu(gate * value), w2),
        "W1 is left out": linear(silu(value), w2),
        "SiLU is applied to both branches": linear(silu(gate) * silu(value), w2),
        "SiLU is applied twice": linear(silu(silu(gate)) * value, w2),
        "the input is added (the residual connection belongs to the block)": linear(
            silu(gate) * value, w2
        )
        + wide(x),
    }


@quietly
def rms_norm(x: Array, weight: Array, eps: float) -> Answers:
    x, weight = wide(x), gain(weight)
    is_shifted = "gain_one_plus" in CHOSEN
    square = np.mean(x**2, -1, keepdims=True)
    centred = x - x.mean(-1, keepdims=True)
    variance = np.mean(centred**2, -1, keepdims=True)
    # torch.var and torch.std divide by N - 1 unless they are told otherwise.
    unbiased = variance * x.shape[-1] / max(x.shape[-1] - 1, 1)
    deviations = [np.sqrt(variance + eps), np.sqrt(unbiased + eps), np.sqrt(unbiased) + eps]
    answers = {
        "the mean is subtracted before squaring (that is LayerNorm, not RMSNorm)": [
            centred / root * weight for root in deviations
        ],
        "x is divided by its standard deviation: the mean must not be subtracted": [
            x / root * weight for root in deviations
        ],
        "the squares are summed, not averaged": x / np.sqrt(x.shape[-1] * square + eps) * weight,
        "eps is added outside the root": x / (np.sqrt(square) + eps) * weight,
        "eps is missing": x / np.sqrt(square) * weight,
        "the gain is forgotten": x / np.sqrt(square + eps),
        "the gain is added instead of multiplied": x / np.sqrt(square + eps) + weight,
        "the gain is applied twice": x / np.sqrt(square + eps) * weight**2,
        "the gain is weight, not 1 + weight" if is_shifted else "the gain is 1 + weight": x
        / np.sqrt(square + eps)
        * (weight - 1 if is_shifted else weight + 1),
        "the root is missing": x / (square + eps) * weight,
        "eps is squared": x / np.sqrt(square + eps**2) * weight,
        "eps is a lower bound of the mean square: add it": x
        / np.sqrt(np.maximum(square, eps))
        * weight,
        "eps is added before the sum is divided by d_model": x
        / np.sqrt(square + eps / x.shape[-1])
        * weight,
        "the sum is divided by d_model - 1": x
        / np.sqrt(square * x.shape[-1] / max(x.shape[-1] - 1, 1) + eps)
        * weight,
        "the mean of |x| stands in for the root of the mean square": x
        / (np.abs(x).mean(-1, keepdims=True) + eps)
        * weight,
        "one norm is taken over the whole tensor": x / np.sqrt(np.mean(x**2) + eps) * weight,
    }
    for other in (1e-3, 1e-5, 1e-6, 1e-8, 1e-12):
        if other != eps:
            answers[f"eps is always {other:g} and the argument is ignored"] = (
                x / np.sqrt(square + other) * weight
            )
    if x.ndim > 1 and len(set(x.shape)) == 1:
        answers["keepdim=True is missing: each row is divided by the roots of all rows"] = (
            x / np.sqrt(square + eps)[..., 0] * weight
        )
    if x.ndim > 1:
        for axis, place in {0: "the first axis", -2: "the axis before the last"}.items():
            answers[f"the mean is taken over {place}, not over the last one"] = (
                x / np.sqrt(np.mean(x**2, axis, keepdims=True) + eps) * weight
            )
    return answers


@quietly
def softmax_values(x: Array, dim: int) -> Answers:
    narrow = np.asarray(x, np.float32)
    naive = np.exp(narrow)
    shifted = np.exp(narrow - narrow.max())
    top = narrow.max(dim, keepdims=True)
    log_of_sum = np.log(np.exp(narrow - top).sum(dim, keepdims=True)) + top
    from_maximum = np.exp(wide(x) - wide(x).max(dim, keepdims=True))
    answers = {
        "the maximum is not subtracted first, so exp overflows or underflows": naive
        / naive.sum(dim, keepdims=True),
        "exp overflows, and nan is turned into 0: subtract the maximum first": np.nan_to_num(
            naive / naive.sum(dim, keepdims=True)
        ),
        "the maximum is taken over the whole tensor, not along dim, so slices underflow": shifted
        / shifted.sum(dim, keepdims=True),
        "exp(x - logsumexp(x)) is taken, which rounds large x: subtract the maximum first": (
            np.exp(narrow - log_of_sum)
        ),
        "the sum runs over the whole tensor": [
            shifted / shifted.sum(),
            from_maximum / from_maximum.sum(),
        ],
        "the logarithm is returned (log-softmax)": np.log(softmax(x, dim)),
        "the minimum is subtracted instead of the maximum": np.exp(
            narrow - narrow.min(dim, keepdims=True)
        )
        / np.exp(narrow - narrow.min(dim, keepdims=True)).sum(dim, keepdims=True),
        "exp is not divided by its sum": np.exp(wide(x) - wide(x).max(dim, keepdims=True)),
        "a small constant is added to the sum": [
            np.exp(wide(x) - wide(x).max(dim, keepdims=True))
            / (np.exp(wide(x) - wide(x).max(dim, keepdims=True)).sum(dim, keepdims=True) + small)
            for small in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
        ],
        "large inputs are clamped": [
            softmax(np.clip(x, low, high), dim)
            for high in (10, 20, 50, 60, 70, 80, 85, 88, 100)
            for low in (-high, -np.inf)
        ],
        "powers of 2 are taken, not of e": softmax(wide(x) * math.log(2), dim),
    }
    if np.ndim(x) > 1 and len(set(x.shape)) == 1 and dim in (np.ndim(x) - 1, -1):
        powers = np.exp(wide(x) - wide(x).max(dim, keepdims=True))
        answers["keepdim=True is missing: each row is divided by the sums of all rows"] = (
            powers / powers.sum(dim)
        )
    for other in range(np.ndim(x)):
        if other != dim % np.ndim(x):
            # The maximum may well be taken along dim.
            place = {0: "the first axis", np.ndim(x) - 1: "the last axis"}.get(other, "axis W3")
            answers[f"dim is ignored: the sum runs along {place}"] = [
                softmax(x, other),
                from_maximum / from_maximum.sum(other, keepdims=True),
            ]
    return answers


@quietly
def cross_entropy_value(logits: Array, targets: Array) -> Answers:
    mean = cross_entropy(logits, targets)
    count = max(np.size(targets), 1)
    narrow = np.asarray(logits, np.float32)
    picked = np.take_along_axis(narrow, targets[..., None], -1)[..., 0]
    p = np.take_along_axis(softmax(logits, -1).astype(np.float32), targets[..., None], -1)
    each = np.logaddexp.reduce(wide(logits), axis=-1) - wide(picked)
    is_other = (np.asarray(targets) != 0).astype(float)
    answers = {
        "the losses are summed, not averaged": mean * count,
        "the loss is in bits: use the natural logarithm": mean / math.log(2),
        "the sign is wrong": -mean,
        "the softmax underflows before its logarithm is taken: cancel log and exp": np.mean(
            -np.log(p)
        ),
        "the softmax underflows, and log(0) is turned into 0: cancel log and exp": np.mean(
            np.where(p > 0, -np.log(p), 0)
        ),
        "the maximum is not subtracted first, so exp overflows": np.mean(
            np.log(np.exp(narrow).sum(-1)) - picked
        ),
        "the softmax is applied twice: the inputs are logits already": cross_entropy(
            softmax(logits, -1), targets
        ),
        "probabilities are averaged, then the logarithm is taken": -np.log(np.mean(p)),
        "only the target's logit is used, without the normaliser": -np.mean(picked),
        "a small constant is added inside the logarithm": [
            np.mean(-np.log(wide(p) + constant)) for constant in 10.0 ** -np.arange(5, 13)
        ],
        "the sum is divided by vocab_size too": mean / logits.shape[-1],
        "the losses are returned one by one, not averaged": each,
        "the perplexity is returned: leave exp out": np.exp(mean),
        "targets are counted from 1": cross_entropy(logits, (targets + 1) % logits.shape[-1]),
        "the maximum is taken over the whole tensor, not of each row": np.mean(
            np.log(np.exp(narrow - narrow.max()).sum(-1)) + narrow.max() - picked
        ),
        "target 0 is taken for padding and left out": [
            np.sum(each * is_other) / np.sum(is_other),
            np.sum(each * is_other) / count,
        ],
        "labels are smoothed": [
            (1 - share) * mean + share * np.mean(-np.log(softmax(logits, -1)))
            for share in (0.001, 0.01, 0.05, 0.1, 0.2)
        ],
        "large logits are clamped": [
            cross_entropy(np.clip(logits, low, high), targets)
            for high in (10, 20, 50, 60, 70, 80, 85, 88, 100)
            for low in (-high, -np.inf)
        ],
    }
    if np.ndim(targets) > 1:
        answers["the losses are averaged over the first axis only"] = (
            mean * count / targets.shape[0]
        )
        answers["the losses are averaged over the last axis only, then summed"] = (
            mean * count / targets.shape[-1]
        )
    return answers
