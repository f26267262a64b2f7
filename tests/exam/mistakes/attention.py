"""Mistakes in scaled dot-product attention and rotary position embedding."""

import math

import numpy as np
from oracles import CHOSEN
from oracles.model import (
    Array,
    angles,
    attention,
    rotate,
    rotate_halves,
    rounded,
    softmax,
    wide,
)

from mistakes.functions import Answers, quietly

# A table of the first call, which has this theta, looks the same from outside.
IGNORED_THETA = "theta is ignored (10000 instead), or a table is kept from an earlier call"
_PAIRS = ["(2i, 2i+1)", "(i, i + d_k/2)"]
_RIGHT = "rope_halves" in CHOSEN
OTHER_PAIRS = f"the pairs are {_PAIRS[not _RIGHT]} instead of {_PAIRS[_RIGHT]}"


@quietly
def scaled_attention(q: Array, k: Array, v: Array, mask: Array | None = None) -> Answers:
    q, k, v = wide(q), wide(k), wide(v)
    scores = np.einsum("...qd,...kd->...qk", q, k)
    d_k, d_v, keys = q.shape[-1], v.shape[-1], k.shape[-2]
    seen = np.ones(scores.shape, bool) if mask is None else np.broadcast_to(mask, scores.shape)

    def scaled(factor: float) -> Array:
        return attention(q * factor * math.sqrt(d_k), k, v, mask)

    allowed = np.where(seen, scores / math.sqrt(d_k), -np.inf)
    banned = np.where(seen, scores / math.sqrt(d_k), -1e30)  # where nan is avoided
    weights = softmax(scores / math.sqrt(d_k), -1)
    powers = np.where(seen, np.exp((scores / math.sqrt(d_k)).astype(np.float32)), np.float32(0))
    answers = {
        "the scores are not scaled: divide by sqrt(d_k)": scaled(1),
        "the scores are divided by d_k, not by its root": scaled(1 / d_k),
        "the scores are divided by sqrt(d_v), not sqrt(d_k)": scaled(1 / math.sqrt(d_v)),
        "the scores are divided by the root of the number of keys": scaled(1 / math.sqrt(keys)),
        "the scores are multiplied by sqrt(d_k)": scaled(math.sqrt(d_k)),
        "the softmax runs over the queries, not the keys": [
            softmax(allowed, -2) @ v,
            softmax(banned, -2) @ v,
        ],
        "the softmax does not subtract the maximum, so exp overflows": powers
        / powers.sum(-1, keepdims=True)
        @ v,
        "the softmax is missing": np.where(seen, scores, 0) / math.sqrt(d_k) @ v,
        "the values are mixed by 1 / number of keys, the scores are ignored": attention(
            0 * q, k, v, mask
        ),
    }
    if mask is None:
        causal_mask = np.tril(np.ones(scores.shape[-2:], bool))
        answers["a causal mask is applied although mask is None"] = attention(q, k, v, causal_mask)
        return answers
    scores = scores / math.sqrt(d_k)
    if np.ndim(mask) == scores.ndim > 2:
        answers["every batch row gets the mask of the first one"] = attention(q, k, v, mask[:1])
    return (
        answers
        | {
            # A query that sees nothing by it has nan, the mean, or zeros.
            "the mask is inverted: True means may attend": [
                softmax(np.where(seen, -np.inf, scores), -1) @ v,
                softmax(np.where(seen, -1e30, scores), -1) @ v,
                attention(q, k, v, ~seen),
            ],
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
    narrow = rounded(right, "bfloat16")
    answers = {
        OTHER_PAIRS: rotate(x, right, is_other=True),
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
        # Thousands of radians in float32: what comes out depends on how they are rounded.
        "the angle is multiplied by theta's power, not divided": rotate(
            x, place * theta ** (2 * pair / d_k)
        )
        if np.all(place * theta ** (2 * pair / d_k) < 200)
        else None,
        "token_positions are ignored: rows are taken to be 0, 1, 2, ...": rotate(
            x, angles(np.arange(x.shape[-2]), d_k, theta)
        ),
        "nothing is rotated": x,
        "positions are counted from the end of the row": rotate(
            x, angles(np.asarray(positions) - x.shape[-2] + 1, d_k, theta)
        ),
        "positions start at the first one given": rotate(
            x, angles(np.asarray(positions) - np.asarray(positions)[..., :1], d_k, theta)
        ),
        "all pairs turn by the same angle: theta**(2i/d_k) is missing": rotate(
            x, np.broadcast_to(place, right.shape)
        ),
        "the exponent is divided by d_k/2 - 1 (the ends of the range are included)": rotate(
            x, place / theta ** (pair / max(d_k // 2 - 1, 1))
        ),
        "sine and cosine are swapped": rotate(x, math.pi / 2 - right),
        "the frequencies are in reverse order: the first pair is to turn fastest": rotate(
            x, right[..., ::-1]
        ),
        "the second of each pair is not rotated": np.where(np.arange(d_k) % 2, x, rotate(x, right)),
        "only the first half of the features is rotated": np.concatenate(
            [rotate(x, right)[..., : d_k // 4 * 2], x[..., d_k // 4 * 2 :]], -1
        ),
        IGNORED_THETA: rotate(x, angles(positions, d_k, 10000.0)),
        "the angles are rounded to float16: keep them in float32": rotate(
            x, rounded(right, "float16")
        ),
        "the angles are computed in bfloat16: keep them in float32": rotate(x, narrow),
    }
    if "rope_halves" not in CHOSEN:
        half = np.concatenate([x[..., 0::2], x[..., 1::2]], -1)  # pairs that lie d_k/2 apart
        answers["the rotated halves are joined end to end: interleave them again"] = rotate_halves(
            half, right
        )
    if np.ndim(positions) > 1:
        first = np.asarray(positions)[:1]
        answers["every batch row gets the positions of the first one"] = rotate(
            x, angles(np.broadcast_to(first, np.shape(positions)), d_k, theta)
        )
    return answers
