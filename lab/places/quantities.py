"""What a right implementation may hold on the way: quantities of each adapter by name.

Axes are as fine as any layout splits them (heads, pairs), so that others are mergers of these.
More names than needed do no harm: a quantity is looked for, never demanded.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from oracles import model as oracles
from oracles.model import Array, wide

Quantities = dict[str, Array]
Arguments = Mapping[str, Any]


def silu(in_features: Array) -> Quantities:
    x = wide(in_features)
    with np.errstate(over="ignore"):
        small = np.exp(-x)
    return {
        "the input": x,
        "-x": -x,
        "exp(-x)": small,
        "1 + exp(-x)": 1 + small,
        "the sigmoid": oracles.sigmoid(x),
        "x times the sigmoid": oracles.silu(x),
    }


def softmax(in_features: Array, dim: int, what: str = "input") -> Quantities:
    x = wide(in_features)
    top = np.max(x, dim, keepdims=True)
    with np.errstate(over="ignore", invalid="ignore"):
        shifted = x - top
        powers = np.exp(shifted)
        total = np.sum(powers, dim, keepdims=True)
        plain = np.exp(x)
        plain_total = np.sum(plain, dim, keepdims=True)
        return {
            f"the {what}": x,
            f"the maxima of the {what}": top,
            f"the {what} less the maxima": shifted,
            "the exponentials": powers,
            "the sums of the exponentials": total,
            "1 / the sums": 1 / total,
            "the logarithms of the sums": np.log(total),
            "the logarithms of the probabilities": shifted - np.log(total),
            "the exponentials without a shift": plain,
            "the sums without a shift": plain_total,
            "the logarithms of the sums without a shift": np.log(plain_total),
            "the probabilities": powers / total,
        }


def cross_entropy(inputs: Array, targets: Array) -> Quantities:
    chosen = np.asarray(targets)[..., None]
    steps = softmax(inputs, -1, "logits")

    def at_target(name: str) -> Array:
        return np.take_along_axis(steps[name], chosen, -1)[..., 0]

    each = -at_target("the logarithms of the probabilities")
    return {
        **steps,
        "the targets": targets,
        "the targets as ones among zeros": np.arange(np.shape(inputs)[-1]) == chosen,
        "the logits of the targets": at_target("the logits"),
        "the logits of the targets less the maxima": at_target("the logits less the maxima"),
        "the probabilities of the targets": at_target("the probabilities"),
        "the logarithms of the targets' probabilities": -each,
        "the losses": each,
        "the sum of the losses": each.sum(),
        "the mean of the losses": each.mean(),
    }


def linear(weights: Array, in_features: Array, **_: Any) -> Quantities:
    x, weight = wide(in_features), wide(weights)
    products = x[..., None, :] * weight
    return {"the input": x, "the weight": weight, "products": products, "x W^T": products.sum(-1)}


def embedding(weights: Array, token_ids: Array, vocab_size: int, **_: Any) -> Quantities:
    return {
        "the ids": token_ids,
        "the table": wide(weights),
        "the ids as ones among zeros": np.arange(vocab_size) == np.asarray(token_ids)[..., None],
        "the rows of the ids": oracles.embedding(token_ids, weights),
    }


def rmsnorm(weights: Array, in_features: Array, eps: float, **_: Any) -> Quantities:
    x, gain = wide(in_features), wide(weights)
    squares = x**2
    mean = squares.mean(-1, keepdims=True)
    root = np.sqrt(mean + eps)
    return {
        "eps": np.asarray(eps),
        "the input": x,
        "the gain": gain,
        "the squares": squares,
        "the sums of squares": squares.sum(-1, keepdims=True),
        "the norms": np.sqrt(squares.sum(-1, keepdims=True)),
        "the mean squares": mean,
        "the mean squares plus eps": mean + eps,
        "the roots of the mean squares plus eps": root,
        "1 / the roots": 1 / root,
        "x times the gain": x * gain,
        "the gain / the roots": gain / root,
        "x / the roots": x / root,
        "the normalised input times the gain": x / root * gain,
    }


def swiglu(
    w1_weight: Array, w2_weight: Array, w3_weight: Array, in_features: Array, **_: Any
) -> Quantities:
    x = wide(in_features)
    before, content = oracles.linear(x, w1_weight), oracles.linear(x, w3_weight)
    gate = oracles.silu(before)
    return {
        "the input": x,
        **{f"W{n}": wide(w) for n, w in enumerate((w1_weight, w2_weight, w3_weight), 1)},
        "W1 and W3, stacked": np.concatenate([w1_weight, w3_weight]),
        "W1 x": before,
        "W3 x": content,
        "W1 x and W3 x, joined": np.concatenate([before, content], -1),
        **named("of W1 x", {k: v for k, v in silu(before).items() if "exp" in k or k == "-x"}),
        "the sigmoid of W1 x": oracles.sigmoid(before),
        "the gate SiLU(W1 x)": gate,
        "W1 x times W3 x": before * content,
        "the gate times W3 x": gate * content,
        "W2 (the gate times W3 x)": oracles.linear(gate * content, w2_weight),
    }


def attention(
    Q: Array,  # noqa: N803
    K: Array,  # noqa: N803
    V: Array,  # noqa: N803
    mask: Array | None = None,
) -> Quantities:
    q, k, v = wide(Q), wide(K), wide(V)
    root = math.sqrt(q.shape[-1])
    scores = np.einsum("...qd,...kd->...qk", q, k)
    found = {
        "sqrt(d_k)": np.asarray(root),
        "1 / sqrt(d_k)": np.asarray(1 / root),
        "the queries": q,
        "the keys": k,
        "the values": v,
        "the queries / sqrt(d_k)": q / root,
        "the keys / sqrt(d_k)": k / root,
        "the queries / the fourth root of d_k": q / math.sqrt(root),
        "the keys / the fourth root of d_k": k / math.sqrt(root),
        "the scores before scaling": scores,
        "the scaled scores": scores / root,
    }
    final = scores / root
    if mask is not None:
        allowed = np.broadcast_to(np.asarray(mask, bool), scores.shape)
        final = np.where(allowed, final, -np.inf)
        found |= {
            "the mask": allowed,
            "the inverted mask": ~allowed,
            "the mask as 0 and minus infinity": np.where(allowed, 0.0, -np.inf),
            "the masked scores before scaling": np.where(allowed, scores, -np.inf),
            "the masked scores": final,
        }
    found |= softmax(final, -1, "masked scores" if mask is not None else "scaled scores")
    return found | {"the mixtures of the values": found["the probabilities"] @ v}


def rope(
    d_k: int,
    theta: float,
    max_seq_len: int,
    in_query_or_key: Array,
    token_positions: Array,
) -> Quantities:
    x = wide(in_query_or_key)
    pairs = x.reshape((*x.shape[:-1], -1, 2))
    places, pair = np.arange(max_seq_len), np.arange(d_k // 2)
    speeds = theta ** (-2.0 * pair / d_k)
    table = places[:, None] * speeds
    angle = np.broadcast_to(wide(token_positions)[..., None] * speeds, pairs.shape[:-1])
    even, odd = pairs[..., 0], pairs[..., 1]
    turned = oracles.rope(x, token_positions, theta).reshape(pairs.shape)
    found = {
        "the input": pairs,
        "the positions": np.asarray(token_positions),
        "0, 1, 2, ...": places,
        "the numbers of the pairs": pair,
        "the numbers of the even coordinates": 2 * pair,
        "the numbers of the even coordinates, negated": -2.0 * pair,
        "the exponents 2i / d_k": 2.0 * pair / d_k,
        "the exponents -2i / d_k": -2.0 * pair / d_k,
        "the logarithms of the frequencies": np.log(speeds),
        "the powers of theta": 1 / speeds,
        "the frequencies": speeds,
    }
    for what, angles in (("for every position", table), ("", angle)):
        found |= named(
            what,
            {
                "the angles": angles,
                "the negated angles": -angles,
                "the cosines": np.cos(angles),
                "the sines": np.sin(angles),
                "the negated sines": -np.sin(angles),
                "the cosines and sines": np.stack([np.cos(angles), np.sin(angles)], -1),
                "the rotation matrices": np.stack(
                    [np.cos(angles), -np.sin(angles), np.sin(angles), np.cos(angles)], -1
                ).reshape(*angles.shape, 2, 2),
            },
        )
    cos, sin = np.cos(angle), np.sin(angle)
    both = np.stack([-odd, even], -1)
    return found | {
        "the even coordinates": even,
        "the odd coordinates": odd,
        "the odd coordinates, negated": -odd,
        "the pairs, swapped": both,
        "even times cosine": even * cos,
        "odd times sine": odd * sin,
        "even times sine": even * sin,
        "odd times cosine": odd * cos,
        "the coordinates times the cosines": pairs * cos[..., None],
        "the swapped pairs times the sines": both * sin[..., None],
        "the rotated even coordinates": turned[..., 0],
        "the rotated odd coordinates": turned[..., 1],
        "the rotated coordinates": turned,
        "the rotated input": turned.reshape(x.shape),
    }


def multihead(
    d_model: int,
    num_heads: int,
    q_proj_weight: Array,
    k_proj_weight: Array,
    v_proj_weight: Array,
    o_proj_weight: Array,
    in_features: Array,
    max_seq_len: int = 0,
    theta: float = 0.0,
    token_positions: Array | None = None,
) -> Quantities:
    """Of attention with heads; `theta` 0: without rotation."""
    x = wide(in_features)
    given = {"q": q_proj_weight, "k": k_proj_weight, "v": v_proj_weight}
    projected = {name: oracles.linear(x, weight) for name, weight in given.items()}
    stacked = np.stack([heads_of(value, num_heads) for value in projected.values()], -3)
    found = {
        "the input": x,
        **{f"the weight of {name}": wide(weight) for name, weight in given.items()},
        "the weight of the output": wide(o_proj_weight),
        "the weights of q, k and v, stacked": np.concatenate(list(given.values())),
        "q, k and v, joined": stacked,
    }
    for name, value in projected.items():
        found[f"{name} of every head"] = heads_of(value, num_heads)
    q, k, v = (oracles.split_heads(value, num_heads) for value in projected.values())
    if theta:
        length, d_head = x.shape[-2], d_model // num_heads
        places = np.arange(length) if token_positions is None else np.asarray(token_positions)
        for_heads = places if places.ndim == 1 else places[..., None, :]
        for name, value in (("queries", q), ("keys", k)):
            steps = rope(d_head, theta, max_seq_len, value, for_heads)
            alike = {n: a for n, a in steps.items() if a.ndim < value.ndim}
            found |= alike | named(
                f"of the {name}", {n: a for n, a in steps.items() if n not in alike}
            )
        q, k = (oracles.rope(value, for_heads, theta) for value in (q, k))
    visible = oracles.causal(x.shape[-2])
    found |= {
        "0, 1, 2, ... for the mask": np.arange(x.shape[-2]),
        "the causal mask": visible,
        "the inverted causal mask": ~visible,
        "the causal mask as 0 and minus infinity": np.where(visible, 0.0, -np.inf),
    }
    found |= attention(q, k, v, visible)
    mixed = np.swapaxes(found["the mixtures of the values"], -2, -3)
    found["the heads' mixtures"] = mixed
    return found | {"the output": oracles.linear(mixed.reshape(x.shape), o_proj_weight)}


def heads_of(x: Array, num_heads: int) -> Array:
    return x.reshape((*x.shape[:-1], num_heads, -1))


def block(
    d_model: int,
    num_heads: int,
    max_seq_len: int,
    theta: float,
    weights: Mapping[str, Array],
    in_features: Array,
    **_: Any,
) -> Quantities:
    x = wide(in_features)
    own = {f"{name}_proj_weight": w for name, w in oracles.attention_weights(weights).items()}
    norms: list[dict[str, Any]] = [
        {"weights": weights[f"ln{n}.weight"], "eps": oracles.BLOCK_EPS} for n in (1, 2)
    ]
    first = rmsnorm(in_features=x, **norms[0])
    normed = list(first.values())[-1]
    attended = multihead(
        d_model=d_model,
        num_heads=num_heads,
        in_features=normed,
        max_seq_len=max_seq_len,
        theta=theta,
        **own,
    )
    middle = x + list(attended.values())[-1]
    second = rmsnorm(in_features=middle, **norms[1])
    ffn = {f"w{n}_weight": weights[f"ffn.w{n}.weight"] for n in (1, 2, 3)}
    fed = swiglu(in_features=list(second.values())[-1], **ffn)
    found = {"the input": x} | weights_of(weights)
    found |= named("of the first norm", without_input(first))
    found |= named("of the attention", without_input(attended))
    found |= {"the input plus the attention's output": middle}
    found |= named("of the second norm", without_input(second))
    found |= named("of the feed-forward part", without_input(fed))
    return found | {"the block's output": middle + list(fed.values())[-1]}


def model(
    vocab_size: int,
    context_length: int,
    d_model: int,
    num_layers: int,
    num_heads: int,
    rope_theta: float,
    weights: Mapping[str, Array],
    in_indices: Array,
    **_: Any,
) -> Quantities:
    looked_up = embedding(weights["token_embeddings.weight"], in_indices, vocab_size)
    x = list(looked_up.values())[-1]
    found = weights_of(weights) | named("of the embedding", looked_up)
    for layer in range(num_layers):
        own = oracles.layer_weights(weights, layer)
        steps = block(d_model, num_heads, context_length, rope_theta, own, x)
        found |= named(f"(layers.{layer})", steps)
        x = list(steps.values())[-1]
    last = rmsnorm(weights["ln_final.weight"], x, oracles.BLOCK_EPS)
    found |= named("of the last norm", last)
    return found | {
        "the logits": oracles.linear(list(last.values())[-1], weights["lm_head.weight"])
    }


def weights_of(weights: Mapping[str, Array]) -> Quantities:
    return {f"the weight {name}": wide(weight) for name, weight in weights.items()}


def named(what: str, steps: Quantities) -> Quantities:
    return {f"{name} {what}".strip(): value for name, value in steps.items()}


def without_input(steps: Quantities) -> Quantities:
    return {name: value for name, value in steps.items() if name != "the input"}


OF: dict[str, Callable[..., Quantities]] = {
    "run_silu": silu,
    "run_softmax": softmax,
    "run_cross_entropy": cross_entropy,
    "run_scaled_dot_product_attention": attention,
    "run_linear": linear,
    "run_embedding": embedding,
    "run_rmsnorm": rmsnorm,
    "run_swiglu": swiglu,
    "run_rope": rope,
    "run_multihead_self_attention": multihead,
    "run_multihead_self_attention_with_rope": multihead,
    "run_transformer_block": block,
    "run_transformer_lm": model,
}
"""By adapter; the last quantity of each is its output."""
