"""Mistakes in multi-head attention, without and with RoPE."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from oracles import model as oracles
from oracles.model import (
    Array,
    Weights,
    angles,
    attention,
    causal,
    linear,
    merge_heads,
    multihead,
    split_heads,
    wide,
)

from mistakes.attention import IGNORED_THETA, OTHER_PAIRS
from mistakes.functions import Answers


def split_by_reshape(x: Array, num_heads: int) -> Array:
    return x.reshape((*x.shape[:-2], num_heads, x.shape[-2], x.shape[-1] // num_heads))


def split_interleaved(x: Array, num_heads: int) -> Array:
    split = x.reshape((*x.shape[:-1], x.shape[-1] // num_heads, num_heads))
    return np.moveaxis(split, -1, -3)


def merge_by_reshape(x: Array) -> Array:
    return x.reshape((*x.shape[:-3], x.shape[-2], x.shape[-3] * x.shape[-1]))


def merge_interleaved(x: Array) -> Array:
    merged = np.moveaxis(x, -3, -1)
    return merged.reshape((*merged.shape[:-2], -1))


def unscaled(q: Array, k: Array, v: Array, mask: Array, factor: float) -> Array:
    return attention(wide(q) * factor * math.sqrt(q.shape[-1]), k, v, mask)


def multihead_attention(
    x: Array, weights: Weights, num_heads: int, turn: Callable[[Array], Array] = wide
) -> Answers:
    length, d_model = x.shape[-2:]
    q, k, v = (linear(x, weights[name]) for name in "qkv")
    mask = causal(length)
    by_reshape = partial(split_by_reshape, num_heads=num_heads)
    interleaved = partial(split_interleaved, num_heads=num_heads)

    def output(mixed: Array) -> Array:
        return linear(mixed, weights["o"])

    def attend(
        allowed: Array | None = mask,
        split: Callable[[Array], Array] = lambda z: split_heads(z, num_heads),
        merge: Callable[[Array], Array] = merge_heads,
        factor: float | None = None,
        flat: Array | bool = False,
    ) -> Array:
        heads = [np.where(flat, 0, turn(split(q))), turn(split(k)), split(v)]
        if factor is None:
            return merge(attention(*heads, allowed))
        return merge(unscaled(*heads, allowed, factor))

    def blind(allowed: Array) -> list[Array]:
        """A query that sees nothing may get nan, the mean of all values, or zeros."""
        sees = allowed.any(-1, keepdims=True)
        zeros = output(attend(allowed))
        return [np.where(sees, zeros, np.nan), output(attend(allowed | ~sees, flat=~sees)), zeros]

    answers = {
        "there is no causal mask": output(attend(None)),
        "the causal mask is off by one: a position must see itself": blind(np.tril(mask, -1)),
        "the causal mask is off by one: each position sees the next one": output(
            attend(np.tril(np.ones_like(mask), 1))
        ),
        "the causal mask covers the first few positions only": [
            answer
            for size in range(1, length + 1)  # All of them: what is right, in a short sequence.
            for answer in blind(mask & (np.maximum.outer(*[np.arange(length)] * 2) < size))
        ],
        "the causal mask is inverted: positions see only what comes later": blind(~mask),
        "the causal mask is transposed: positions see themselves and the future": output(
            attend(mask.T)
        ),
        "the output projection is missing": attend(),
        "the heads are split by a reshape without a transpose, which mixes positions": output(
            attend(split=by_reshape)
        ),
        "the heads are split without a transpose and merged without one": output(
            attend(split=by_reshape, merge=merge_by_reshape)
        ),
        "the heads are merged by a reshape without a transpose, which mixes positions": output(
            attend(merge=merge_by_reshape)
        ),
        "the heads are interleaved: rows of the weights are grouped by head": output(
            attend(split=interleaved, merge=merge_interleaved)
        ),
        "the heads are merged as (d_head heads), not (heads d_head)": output(
            attend(merge=merge_interleaved)
        ),
        "the scores are not scaled: divide by sqrt(d_head)": output(attend(factor=1)),
        "the scores are divided by sqrt(d_model), not sqrt(d_head)": output(
            attend(factor=1 / math.sqrt(d_model))
        ),
        "the scores are divided by d_head, not by its root": output(
            attend(factor=num_heads / d_model)
        ),
    }
    for what, roles in {
        "queries and keys are swapped": "kqvo",
        "keys and values are swapped": "qvko",
        "the output and the value weights are swapped": "qkov",
        "the keys are made with the query weights": "qqvo",
    }.items():
        others = {role: weights[name] for role, name in zip("qkvo", roles, strict=True)}
        answers[what] = multihead(x, others, num_heads, turn)
    transposed = {name: weight.T for name, weight in weights.items()}
    answers["the weights are transposed: they are stored (out, in)"] = multihead(
        x, transposed, num_heads, turn
    )
    answers["the output weight is transposed: it is stored (out, in)"] = multihead(
        x, {**weights, "o": transposed["o"]}, num_heads, turn
    )
    for name, role in {"query": "q", "key": "k", "value": "v"}.items():
        others = {**weights, role: transposed[role]}
        answers[f"the {name} weight is transposed: it is stored (out, in)"] = multihead(
            x, others, num_heads, turn
        )
    answers["the input is added (the residual connection belongs to the block)"] = wide(
        x
    ) + multihead(x, weights, num_heads, turn)
    if num_heads > 1 and turn is wide:
        answers["num_heads is ignored: there is a single head"] = multihead(x, weights, 1)
    return answers


def multihead_attention_with_rope(
    x: Array, weights: Weights, num_heads: int, theta: float, positions: Array
) -> Answers:
    places = np.asarray(positions)[..., None, :]

    def turn(z: Array) -> Array:
        return oracles.rope(z, places, theta)

    def masked_by(allowed: Array) -> Array:
        q, k, v = (split_heads(linear(x, weights[name]), num_heads) for name in "qkv")
        q, k = turn(q), turn(k)
        return linear(merge_heads(attention(q, k, v, allowed)), weights["o"])

    def run(
        for_q: Callable[[Array], Array],
        for_k: Callable[[Array], Array],
        for_v: Callable[[Array], Array] = wide,
        before: Callable[[Array], Array] = wide,
    ) -> Array:
        q, k = (split_heads(before(linear(x, weights[name])), num_heads) for name in "qk")
        v = for_v(split_heads(linear(x, weights["v"]), num_heads))
        mixed = attention(for_q(q), for_k(k), v, causal(x.shape[-2]))
        return linear(merge_heads(mixed), weights["o"])

    place = np.asarray(positions)
    answers = {
        "the causal mask compares token_positions: compare places in the sequence": masked_by(
            place[..., None, :, None] >= place[..., None, None, :]
        ),
        "the rotation of queries and keys goes the wrong way (check the sign of sin)": run(
            *[lambda z: oracles.rope(z, -places, theta)] * 2
        ),
        "queries and keys turn in opposite directions": run(
            turn, lambda z: oracles.rope(z, -places, theta)
        ),
        "the angles are those of d_model, not of d_head": run(
            *[
                lambda z: oracles.rotate(
                    z, angles(places, x.shape[-1], theta)[..., : z.shape[-1] // 2]
                )
            ]
            * 2
        ),
        "the values are rotated too: only queries and keys are": run(turn, turn, turn),
        "RoPE is not applied, or turns by the number of the head instead of the position": run(
            wide, wide
        ),
        "only the queries are rotated": run(turn, wide),
        "only the keys are rotated": run(wide, turn),
        "RoPE is applied before the heads are split": run(
            wide, wide, before=lambda z: oracles.rope(z, np.asarray(positions), theta)
        ),
        "token_positions are ignored: rows are taken to be 0, 1, 2, ...": run(
            *[lambda z: oracles.rope(z, np.arange(x.shape[-2]), theta)] * 2
        ),
        OTHER_PAIRS: run(
            *[lambda z: oracles.rotate(z, angles(places, z.shape[-1], theta), is_other=True)] * 2
        ),
        IGNORED_THETA: run(*[lambda z: oracles.rope(z, places, 10000.0)] * 2),
    }
    if np.ndim(place) > 1 and num_heads == len(place):
        answers["positions of a batch have no axis for the heads"] = run(
            *[lambda z: oracles.rope(z, place, theta)] * 2
        )
    if np.ndim(place) > 1:
        answers["every batch row gets the positions of the first one"] = run(
            *[lambda z: oracles.rope(z, place[0], theta)] * 2
        )
    return answers | multihead_attention(x, weights, num_heads, turn)
