"""Mistakes in the block and the model."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from oracles import model as oracles
from oracles.model import (
    Array,
    Weights,
    attention,
    block_parts,
    linear,
    merge_heads,
    multihead,
    rmsnorm,
    softmax,
    split_heads,
    wide,
)

from mistakes.attention import IGNORED_THETA
from mistakes.functions import Answers


def without_mask(x: Array, weights: Weights, num_heads: int, theta: float) -> Array:
    own, places = oracles.attention_weights(weights), np.arange(x.shape[-2])
    q, k, v = (split_heads(linear(x, own[name]), num_heads) for name in "qkv")
    q, k = (oracles.rope(z, places, theta) for z in (q, k))
    mixed = attention(q, k, v)
    return linear(merge_heads(mixed), own["o"])


def block_gradient(
    x: Array, weights: Weights, num_heads: int, theta: float, cotangent: Array
) -> Answers:
    """Gradients by x if something on the residual stream is detached."""
    ln1, attn, ln2, ffn = block_parts(weights, num_heads, theta)
    middle = wide(x) + attn(ln1(x))

    def by_x(function: Callable[[Array], Array]) -> Array:
        return oracles.gradient(function, x, cotangent)

    def rest(y: Array) -> Array:
        return y + ffn(ln2(y))

    return {
        "the residual around the attention is detached": by_x(lambda z: rest(x + attn(ln1(z)))),
        "the residual around the feed-forward is detached": by_x(
            lambda z: ffn(ln2(z + attn(ln1(z))))
        ),
        "the attention branch is detached": by_x(lambda z: rest(z + attn(ln1(x)))),
        "the feed-forward branch or its input is detached": by_x(
            lambda z: z + attn(ln1(z)) + ffn(ln2(middle))
        ),
    }


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
    unmasked = x + without_mask(ln1(x), weights, num_heads, theta)
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
        "the gains of the norms are not loaded: they stay 1": with_(
            ln1__weight=np.full_like(weights["ln1.weight"], oracles.fresh_weight()),
            ln2__weight=np.full_like(weights["ln2.weight"], oracles.fresh_weight()),
        ),
        "the feed-forward comes before the attention": (x + ffn(ln2(x)))
        + attn(ln1(x + ffn(ln2(x)))),
        "the feed-forward is missing": middle,
        "the attention is missing": x + ffn(ln2(x)),
        "RoPE is not applied": no_rope + ffn(ln2(no_rope)),
        "there is no causal mask": unmasked + ffn(ln2(unmasked)),
        "the output is scaled by 1/sqrt(2)": (middle + ffn(ln2(middle))) / math.sqrt(2),
        "the residual around the feed-forward comes from the block's input": x + ffn(ln2(middle)),
        "the residual around the attention is added twice": x + middle + ffn(ln2(x + middle)),
        "W1 and W3 of the feed-forward are swapped": with_(
            ffn__w1__weight=weights["ffn.w3.weight"], ffn__w3__weight=weights["ffn.w1.weight"]
        ),
        IGNORED_THETA: oracles.transformer_block(x, weights, num_heads, 10000.0),
    }


def transformer_lm(
    token_ids: Array,
    weights: Weights,
    num_layers: int,
    num_heads: int,
    theta: float,
    context_length: int,
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

    def padded(left: int, right: int) -> Array:
        ids = np.pad(token_ids, [(0, 0), (left, right)])
        return oracles.transformer_lm(ids, weights, num_layers, num_heads, theta)

    length = token_ids.shape[1]
    missing = max(context_length - length, 0)
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
        "the blocks are in the order of their names, layers.10 before layers.2": linear(
            final(blocks(embedded, sorted(order, key=str))), head
        ),
        "the gains of the norms are not loaded: they stay 1": oracles.transformer_lm(
            token_ids,
            {
                key: np.full_like(value, oracles.fresh_weight()) if value.ndim == 1 else value
                for key, value in weights.items()
            },
            num_layers,
            num_heads,
            theta,
        ),
        "the gain of the final norm is not loaded: it stays 1": linear(
            rmsnorm(hidden, np.full(d_model, oracles.fresh_weight()), oracles.BLOCK_EPS), head
        ),
        "only the first block is used": linear(final(blocks(embedded, order[:1])), head),
        "the last block is left out": linear(final(blocks(embedded, order[:-1])), head),
        "every block has the weights of the first one": linear(
            final(blocks(embedded, [0] * num_layers)), head
        ),
        "every block has the weights of the last one": linear(
            final(blocks(embedded, [num_layers - 1] * num_layers)), head
        ),
        "the blocks are skipped": linear(final(embedded), head),
        "short texts are padded on the left, which shifts their positions": padded(missing, 0)[
            :, -length:
        ],
        "short texts are padded to context_length and the logits are not cut again": [
            padded(missing, 0),
            padded(0, missing),
        ],
        "only the last position is returned": [logits[:, -1:], logits[:, -1]],
        "the likeliest tokens are returned: return the logits": logits.argmax(-1),
        "the embedding is normalised by ln_final as well": linear(
            final(blocks(final(embedded), order)), head
        ),
        "the embedding is added again before the final norm": linear(
            final(hidden + embedded), head
        ),
        "the logits are divided by sqrt(d_model)": logits / math.sqrt(d_model),
        IGNORED_THETA: oracles.transformer_lm(token_ids, weights, num_layers, num_heads, 10000.0),
    }


OTHER_EPS = (0.0, 1e-8, 1e-6)


def block_eps(x: Array, weights: Weights, num_heads: int, theta: float) -> Answers:
    """The block with other constants in its norms, which a small stream shows."""
    _, attn, _, ffn = block_parts(weights, num_heads, theta)

    def block(first: float, second: float) -> Array:
        middle = wide(x) + attn(rmsnorm(x, weights["ln1.weight"], first))
        return middle + ffn(rmsnorm(middle, weights["ln2.weight"], second))

    return {
        "ln1 has an eps other than 1e-5": [block(eps, 1e-5) for eps in OTHER_EPS],
        "ln2 has an eps other than 1e-5": [block(1e-5, eps) for eps in OTHER_EPS],
        "both norms have an eps other than 1e-5": [block(eps, eps) for eps in OTHER_EPS],
    }


def last_eps_of_silent_blocks(ids: Array, weights: Weights) -> Answers:
    """A model whose blocks add nothing, with other constants in its last norm."""
    stream = oracles.embedding(ids, weights["token_embeddings.weight"])
    last = [rmsnorm(stream, weights["ln_final.weight"], eps) for eps in OTHER_EPS]
    return {
        "the last norm has an eps other than 1e-5": [
            linear(norm, weights["lm_head.weight"]) for norm in last
        ]
    }
