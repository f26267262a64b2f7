"""Mistakes in multi-head attention, the block and the model."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from oracles import model as oracles
from oracles.model import (
    Array,
    Weights,
    angles,
    attention,
    block_parts,
    causal,
    linear,
    merge_heads,
    multihead,
    rmsnorm,
    softmax,
    split_heads,
    wide,
)

from mistakes.functions import Answers, rotate_halves


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
    if num_heads > 1 and turn is wide:
        answers["num_heads is ignored: there is a single head"] = multihead(x, weights, 1)
    return answers


def multihead_attention_with_rope(
    x: Array, weights: Weights, num_heads: int, theta: float, positions: Array
) -> Answers:
    places = np.asarray(positions)[..., None, :]

    def turn(z: Array) -> Array:
        return oracles.rope(z, places, theta)

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

    answers = {
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
        "the pairs are (i, i + d_k/2) instead of (2i, 2i+1)": run(
            *[lambda z: rotate_halves(z, angles(places, z.shape[-1], theta))] * 2
        ),
        "theta is ignored (10000 instead)": run(*[lambda z: oracles.rope(z, places, 10000.0)] * 2),
    }
    return answers | multihead_attention(x, weights, num_heads, turn)


def transformer_block(x: Array, weights: Weights, num_heads: int, theta: float) -> Answers:
    x = wide(x)
    ln1, attn, ln2, ffn = block_parts(weights, num_heads, theta)

    def with_(**others: Array) -> Array:
        renamed = {**weights, **{key.replace("__", "."): value for key, value in others.items()}}
        return oracles.transformer_block(x, renamed, num_heads, theta)

    middle = x + attn(ln1(x))
    post = ln1(x + attn(x))
    no_rope = x + multihead(
        ln1(x),
        oracles.attention_weights(weights),
        num_heads,
    )
    normed = ln1(x)
    return {
        "the norms come after the residual additions (post-norm instead of pre-norm)": ln2(
            post + ffn(post)
        ),
        "the norms come after the sublayers, inside the branches": (
            x + ln1(attn(x)) + ln2(ffn(x + ln1(attn(x))))
        ),
        "attention and feed-forward run in parallel on the same input": x
        + attn(ln1(x))
        + ffn(ln2(x)),
        "attention and feed-forward run in parallel after ln1": x + attn(ln1(x)) + ffn(ln1(x)),
        "there are no residual connections": ffn(ln2(attn(ln1(x)))),
        "the residual connection around attention is missing": attn(ln1(x))
        + ffn(ln2(attn(ln1(x)))),
        "the residual connection around the feed-forward is missing": ffn(ln2(middle)),
        "the residual is the normalised input": normed
        + attn(normed)
        + ffn(ln2(normed + attn(normed))),
        "ln1 is missing": x + attn(x) + ffn(ln2(x + attn(x))),
        "ln2 is missing": middle + ffn(middle),
        "both norms are missing": x + attn(x) + ffn(x + attn(x)),
        "ln1 is used twice": middle + ffn(ln1(middle)),
        "ln1 and ln2 are swapped": with_(
            ln1__weight=weights["ln2.weight"], ln2__weight=weights["ln1.weight"]
        ),
        "the feed-forward comes before the attention": (x + ffn(ln2(x)))
        + attn(ln1(x + ffn(ln2(x)))),
        "the feed-forward is missing": middle,
        "the attention is missing": x + ffn(ln2(x)),
        "RoPE is not applied": no_rope + ffn(ln2(no_rope)),
        "W1 and W3 of the feed-forward are swapped": with_(
            ffn__w1__weight=weights["ffn.w3.weight"], ffn__w3__weight=weights["ffn.w1.weight"]
        ),
        "theta is ignored (10000 instead)": oracles.transformer_block(
            x, weights, num_heads, 10000.0
        ),
    }


def transformer_lm(
    token_ids: Array, weights: Weights, num_layers: int, num_heads: int, theta: float
) -> Answers:
    table, head = weights["token_embeddings.weight"], weights["lm_head.weight"]
    d_model = table.shape[1]

    def blocks(x: Array, layers: Sequence[int]) -> Array:
        for layer in layers:
            own = oracles.layer_weights(weights, layer)
            x = oracles.transformer_block(x, own, num_heads, theta)
        return x

    def final(x: Array) -> Array:
        return rmsnorm(x, weights["ln_final.weight"], oracles.BLOCK_EPS)

    embedded = oracles.embedding(token_ids, table)
    order = list(range(num_layers))
    hidden = blocks(embedded, order)
    logits = linear(final(hidden), head)
    return {
        "the final norm is missing": linear(hidden, head),
        "probabilities are returned: leave the softmax to the loss": softmax(logits, -1),
        "log-probabilities are returned: leave the softmax to the loss": np.log(
            softmax(logits, -1)
        ),
        "the embedding is scaled by sqrt(d_model)": linear(
            final(blocks(embedded * math.sqrt(d_model), order)), head
        ),
        "the embedding is normalised by ln_final before the blocks": linear(
            blocks(final(embedded), order), head
        ),
        "the output layer is tied to the embedding: lm_head has weights of its own": linear(
            final(hidden), table
        ),
        "the blocks run in reverse order": linear(final(blocks(embedded, order[::-1])), head),
        "only the first block is used": linear(final(blocks(embedded, order[:1])), head),
        "the last block is left out": linear(final(blocks(embedded, order[:-1])), head),
        "every block has the weights of the first one": linear(
            final(blocks(embedded, [0] * num_layers)), head
        ),
        "every block has the weights of the last one": linear(
            final(blocks(embedded, [num_layers - 1] * num_layers)), head
        ),
        "the blocks are skipped": linear(final(embedded), head),
        "theta is ignored (10000 instead)": oracles.transformer_lm(
            token_ids, weights, num_layers, num_heads, 10000.0
        ),
    }
