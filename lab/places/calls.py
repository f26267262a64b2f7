"""Calls inside a call that are right in themselves: what they return follows from what they got.

Where `softmax(scores, dim=-2)` stands, each line of softmax does its work; the mistake is in the
line that calls it. So a call whose result is the softmax (linear layer, norm, ...) of what it was
given is taken for one operation of the line that calls it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np
from oracles import model as oracles

from lab.places.matching import Array, are_close, canonical, layouts

Settings = Mapping[str, Any]
Candidates = Iterator[Array]


def of_linear(inputs: Sequence[Array], _: Settings) -> Candidates:
    for x, weight in permutations(inputs, 2):
        if weight.ndim == 2 and x.ndim >= 1 and x.shape[-1] == weight.shape[1]:
            yield oracles.linear(x, weight)


def of_silu(inputs: Sequence[Array], _: Settings) -> Candidates:
    for x in inputs:
        yield oracles.silu(x)


def of_softmax(inputs: Sequence[Array], _: Settings) -> Candidates:
    for x in inputs:
        for axis in range(x.ndim):
            # Not along an axis of length 1, nor with a row that is masked as a whole.
            if x.shape[axis] > 1 and np.isfinite(np.max(x, axis)).all():
                yield oracles.softmax(x, axis)


def of_rmsnorm(inputs: Sequence[Array], settings: Settings) -> Candidates:
    for x, gain in permutations(inputs, 2):
        if gain.ndim == 1 and x.ndim >= 1 and x.shape[-1] == gain.shape[0]:
            yield oracles.rmsnorm(x, gain, settings.get("eps", oracles.BLOCK_EPS))


def of_embedding(inputs: Sequence[Array], _: Settings) -> Candidates:
    for ids, table in permutations(inputs, 2):
        whole = np.all(ids == np.round(ids)) and ids.size and ids.min() >= 0
        if table.ndim == 2 and whole and ids.max() < len(table):
            yield oracles.embedding(ids.astype(int), table)


def of_swiglu(inputs: Sequence[Array], _: Settings) -> Candidates:
    for x, w1, w2, w3 in permutations(inputs, 4):
        fit = w1.ndim == w2.ndim == 2 and w1.shape == w3.shape == w2.shape[::-1]
        if fit and x.ndim >= 1 and x.shape[-1] == w1.shape[1]:
            yield oracles.swiglu(x, w1, w2, w3)


def of_rope(inputs: Sequence[Array], settings: Settings) -> Candidates:
    theta = settings.get("theta", settings.get("rope_theta"))
    for x in inputs if theta else ():
        if x.ndim < 2 or x.shape[-1] % 2:
            continue
        counted = np.arange(x.shape[-2])
        given = settings.get("token_positions")
        for places in (counted, given, None if given is None else np.expand_dims(given, -2)):
            try:
                yield oracles.rope(x, counted if places is None else np.asarray(places), theta)
            except ValueError:  # Positions that do not broadcast against this input.
                continue


def of_attention(inputs: Sequence[Array], _: Settings) -> Candidates:
    for q, k, v in permutations([x for x in inputs if x.ndim >= 2], 3):
        if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
            continue
        shape = (q.shape[-2], k.shape[-2])
        masks = [
            x.astype(bool) for x in inputs if x.shape[-2:] == shape and set(np.unique(x)) <= {0, 1}
        ]
        for mask in [None, *masks, *(~one for one in masks)]:
            try:
                yield oracles.attention(q, k, v, mask)
            except ValueError:  # Leading axes that do not broadcast.
                continue


def of_multihead(inputs: Sequence[Array], settings: Settings) -> Candidates:
    heads = settings.get("num_heads")
    squares = [x for x in inputs if x.ndim == 2 and x.shape[0] == x.shape[1]]
    others = [x for x in inputs if x.ndim >= 2 and all(x is not one for one in squares)]
    theta = settings.get("theta", settings.get("rope_theta"))
    for x in others:
        if not heads or len(squares) != 4 or x.shape[-1] != len(squares[0]):
            continue
        for order in permutations(squares):
            weights = dict(zip("qkvo", order, strict=True))
            yield oracles.multihead(x, weights, heads)
            if theta:
                yield oracles.multihead_with_rope(x, weights, heads, theta)


Rule = Callable[[Sequence[Array], Settings], Candidates]
RULES: dict[str, tuple[Rule, int]] = {
    "a linear layer": (of_linear, 2),
    "SiLU": (of_silu, 1),
    "a softmax": (of_softmax, 2),
    "RMSNorm": (of_rmsnorm, 3),
    "an embedding": (of_embedding, 2),
    "SwiGLU": (of_swiglu, 4),
    "a rotation": (of_rope, 6),
    "attention": (of_attention, 5),
    "attention with heads": (of_multihead, 9),
}
"""By name, with the number of inputs that they have at most, tables and masks included."""

PARTS = {
    "run_swiglu": ("a linear layer", "SiLU"),
    "run_cross_entropy": ("a softmax",),
    "run_scaled_dot_product_attention": ("a softmax",),
    "run_multihead_self_attention": ("a linear layer", "a softmax", "attention"),
    "run_multihead_self_attention_with_rope": (
        *("a linear layer", "a softmax", "attention", "a rotation"),
    ),
    "run_transformer_block": (
        *("a linear layer", "SiLU", "a softmax", "RMSNorm", "SwiGLU", "attention", "a rotation"),
        "attention with heads",
    ),
    "run_transformer_lm": (
        *("a linear layer", "SiLU", "a softmax", "RMSNorm", "SwiGLU", "attention", "a rotation"),
        *("attention with heads", "an embedding"),
    ),
}
"""The parts that each adapter is built from, without what it computes itself."""


def what_it_is(
    function: str, inputs: Sequence[Array], output: Array, settings: Settings
) -> str | None:
    """Name the part that a call is, if its result is the right one for its inputs."""
    wanted = canonical(output)
    for name in PARTS.get(function, ()):
        rule, most = RULES[name]
        for candidate in rule(inputs, settings) if len(inputs) <= most else ():
            if candidate.size == output.size:
                array = canonical(candidate)
                if any(are_close(wanted, laid) for laid in layouts(array, wanted.shape)):
                    return name
    return None
