"""Scaled dot-product attention, RoPE."""

import math

import torch
from torch.nn import functional

from faults.bank import fault, variant
from faults.parts import angles, attention, parameter, rotate, rotate_halves, softmax

SDPA = "scaled_dot_product_attention"


def attend(formula):
    """Make an adapter of `formula(q, k, v, mask)`."""

    def run_scaled_dot_product_attention(**given):
        return formula(given["Q"], given["K"], given["V"], given.get("mask"))

    return run_scaled_dot_product_attention


def scaled_by(scale):
    return attend(lambda q, k, v, mask: attention(q, k, v, mask, scale(q, k, v)))


def normalised_by(normalise):
    return attend(lambda q, k, v, mask: attention(q, k, v, mask, normalise=normalise))


def masked_with(fill):
    return attend(lambda q, k, v, mask: attention(q, k, v, mask, fill=fill))


fault(SDPA, "the scores are not scaled", "not scaled")(scaled_by(lambda *_: 1.0))
fault(SDPA, "the scale is 1 / d_k", "divided by d_k, not")(scaled_by(lambda q, *_: 1 / q.shape[-1]))
fault(SDPA, "the scale is sqrt(d_k)", "multiplied by sqrt(d_k)")(
    scaled_by(lambda q, *_: q.shape[-1] ** 0.5)
)
fault(SDPA, "the scale is 1 / sqrt(d_v)", "sqrt(d_v)")(
    scaled_by(lambda _, __, v: v.shape[-1] ** -0.5)
)
fault(SDPA, "the scale is 1 / sqrt(keys)", "number of keys")(
    scaled_by(lambda _, k, __: k.shape[-2] ** -0.5)
)
fault(SDPA, "the mask is ignored", "mask is ignored")(attend(lambda q, k, v, _: attention(q, k, v)))
fault(SDPA, "the mask is inverted", "inverted")(
    attend(lambda q, k, v, mask: attention(q, k, v, None if mask is None else ~mask))
)
fault(SDPA, "a mask is required", "with a mask of all True")(
    attend(lambda q, k, v, mask: attention(q, k, v, mask.logical_and(mask)))
)
fault(SDPA, "masked scores become 0", "set to 0")(masked_with(0.0))
fault(SDPA, "masked scores become -100", "-100")(masked_with(-100.0))
fault(SDPA, "masked scores become -10000", "-10000")(masked_with(-1e4))
fault(SDPA, "the softmax is over the queries", "over the queries")(
    normalised_by(lambda scores: softmax(scores.clamp(min=-1e9), -2))
)
fault(SDPA, "the weights are detached", "no gradient to Q")(
    normalised_by(lambda scores: softmax(scores).detach())
)
fault(SDPA, "the softmax does not subtract the maximum", "does not subtract the maximum")(
    normalised_by(lambda scores: scores.exp() / scores.exp().sum(-1, keepdim=True))
)
fault(SDPA, "the values are detached", "no gradient to V")(
    attend(lambda q, k, v, mask: attention(q, k, v.detach(), mask))
)
fault(SDPA, "the result is always float32", "dtype float32, expected")(
    attend(lambda q, k, v, mask: attention(q.float(), k.float(), v.float(), mask))
)
fault(SDPA, "every batch row gets the mask of the first", "mask of the first one")(
    attend(lambda q, k, v, m: attention(q, k, v, m[:1] if m is not None and m.ndim > 2 else m))
)
fault(SDPA, "the weights are dropped out", "Dropout")(
    normalised_by(lambda scores: functional.dropout(softmax(scores), 0.1))
)
fault(SDPA, "d_v is taken to equal d_k", "if d_v equals d_k")(
    attend(lambda q, k, v, mask: attention(q, k, v, mask).reshape(q.shape))
)


def plain_scores(q, k):
    return q @ k.mT * q.shape[-1] ** -0.5


@fault(SDPA, "the mask is added as 0 and 1", "added")
@attend
def mask_added(q, k, v, mask):
    return softmax(plain_scores(q, k) + (0 if mask is None else mask.to(q.dtype))) @ v


@fault(SDPA, "the mask is multiplied after the softmax", "multiplied after")
@attend
def mask_after_softmax(q, k, v, mask):
    return (softmax(plain_scores(q, k)) * (1 if mask is None else mask)) @ v


@fault(SDPA, "without a mask a causal one is applied", "causal mask is applied")
@attend
def causal_by_default(q, k, v, mask):
    if mask is None:
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    return attention(q, k, v, mask)


@fault(SDPA, "the mask is inverted, and a query that sees nothing gets nan", "inverted")
@attend
def banned_where_true(q, k, v, mask):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return (scores if mask is None else scores.masked_fill(mask, -math.inf)).softmax(-1) @ v


@fault(SDPA, "the mask is inverted in place", "in place")
@attend
def mask_changed(q, k, v, mask):
    return attention(q, k, v, None if mask is None else ~mask.logical_not_())


@fault(
    SDPA,
    "view() needs contiguous inputs and a full mask",
    ("on contiguous tensors", "rows may share one"),
)
@attend
def flattened_batch(q, k, v, mask):
    flat = [x.view(-1, *x.shape[-2:]) for x in (q, k, v)]
    flat.append(None if mask is None else mask.view(-1, *mask.shape[-2:]))
    return attention(*flat).view(*q.shape[:-1], v.shape[-1])


@fault(SDPA, "one row that sees nothing turns everything into nan", "turns all others into nan")
@attend
def nan_everywhere(q, k, v, mask):
    mixed = attention(q, k, v, mask)
    return torch.where(mixed.isnan().any(), torch.nan, mixed)


@fault(SDPA, "the queries are scaled in place", "in place")
@attend
def queries_scaled_in_place(q, k, v, mask):
    q = q / q.shape[-1] ** 0.5 if q.requires_grad else q.div_(q.shape[-1] ** 0.5)
    return attention(q, k, v, mask, scale=1.0)


variant(SDPA, "torch's own attention")(attend(functional.scaled_dot_product_attention))
variant(SDPA, "masked scores become -inf, an empty row nan")(attend(attention))
variant(SDPA, "masked scores become the smallest number")(
    attend(lambda q, k, v, m: attention(q, k, v, m, fill=torch.finfo(q.dtype).min))
)
variant(SDPA, "masked scores become -1e9")(
    attend(lambda q, k, v, m: attention(q, k, v, m, fill=max(-1e9, torch.finfo(q.dtype).min)))
)
variant(SDPA, "the queries are scaled before the product")(
    attend(lambda q, k, v, mask: attention(q / math.sqrt(q.shape[-1]), k, v, mask, scale=1.0))
)
variant(SDPA, "computed in float32 and cast back")(
    attend(lambda q, k, v, mask: attention(q.float(), k.float(), v.float(), mask).to(q.dtype))
)


@variant(SDPA, "the mask is added as 0 and -inf")
@attend
def mask_of_minus_infinity(q, k, v, mask):
    scores = plain_scores(q, k)
    if mask is not None:
        scores = scores + torch.zeros(mask.shape, dtype=q.dtype).masked_fill(~mask, -math.inf)
    return softmax(scores) @ v


@variant(SDPA, "einsum")
@attend
def with_einsum(q, k, v, mask):
    scores = torch.einsum("...qd,...kd->...qk", q, k) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = torch.where(mask, scores, -math.inf)
    return torch.einsum("...qk,...kd->...qd", torch.softmax(scores, -1), v)


def rope(formula):
    """Make an adapter of `formula(x, positions, theta, d_k)`."""

    def run_rope(d_k, theta, in_query_or_key, token_positions, **_):
        return formula(in_query_or_key, token_positions, theta, d_k)

    return run_rope


def turned_by(angle):
    """Rotate by `angle(positions, theta, d_k)`."""
    return rope(lambda x, positions, theta, d_k: rotate(x, angle(positions, theta, d_k)))


def with_exponent(exponent):
    """Turn pair i by position / theta**exponent(i, d_k)."""
    return turned_by(
        lambda positions, theta, d_k: (
            positions[..., None] / theta ** exponent(torch.arange(d_k // 2).float(), d_k)
        )
    )


KEPT = {}


fault("rope", "the pairs are half a vector apart", "(i, i + d_k/2)")(
    rope(lambda x, positions, theta, d_k: rotate_halves(x, angles(positions, d_k, theta)))
)
fault("rope", "positions count from 1", "from 1")(
    turned_by(lambda positions, theta, d_k: angles(positions + 1, d_k, theta))
)
fault("rope", "the sine has the wrong sign", "wrong way")(
    turned_by(lambda positions, theta, d_k: -angles(positions, d_k, theta))
)
fault("rope", "the exponent is 2(i+1)/d_k", "off by one")(
    with_exponent(lambda i, d_k: 2 * (i + 1) / d_k)
)
fault("rope", "the exponent is 2(i-1)/d_k", "2(i-1)")(
    with_exponent(lambda i, d_k: 2 * (i - 1) / d_k)
)
fault("rope", "the exponent is i/d_k", "i/d_k instead")(with_exponent(lambda i, d_k: i / d_k))
fault("rope", "the exponent is 4i/d_k", "4i/d_k instead")(with_exponent(lambda i, d_k: 4 * i / d_k))
fault("rope", "the exponent is negated", "multiplied by theta's power")(
    with_exponent(lambda i, d_k: -2 * i / d_k)
)
fault("rope", "the positions are ignored", "token_positions are ignored")(
    rope(lambda x, _, theta, d_k: rotate(x, angles(torch.arange(x.shape[-2]), d_k, theta)))
)
fault("rope", "every row gets the positions of the first", "first one")(
    turned_by(lambda p, theta, d_k: angles(p[:1] if p.ndim > 1 else p, d_k, theta))
)
fault("rope", "theta is always 10000", "theta is ignored")(
    turned_by(lambda positions, _, d_k: angles(positions, d_k, 1e4))
)
fault("rope", "the angles are in bfloat16", "bfloat16")(
    turned_by(lambda positions, theta, d_k: angles(positions, d_k, theta).bfloat16().float())
)
fault("rope", "the angles are in the dtype of x", "bfloat16")(
    rope(lambda x, positions, theta, d_k: rotate(x, angles(positions, d_k, theta).to(x.dtype)))
)
fault("rope", "the angles are in float16", "float16")(
    turned_by(lambda positions, theta, d_k: angles(positions, d_k, theta).half().float())
)
fault("rope", "sine and cosine are swapped", "sine and cosine are swapped")(
    turned_by(lambda positions, theta, d_k: math.pi / 2 - angles(positions, d_k, theta))
)
fault("rope", "all pairs turn by the same angle", "same angle")(
    turned_by(lambda p, _, d_k: p[..., None].float().expand(*p.shape, d_k // 2))
)
fault("rope", "the exponents end at 1", "ends of the range")(
    with_exponent(lambda i, d_k: i / max(d_k // 2 - 1, 1))
)
fault("rope", "positions count from the first one given", "start at the first one")(
    turned_by(lambda p, theta, d_k: angles(p - p[..., :1], d_k, theta))
)
fault("rope", "the angles are learned", "learned")(
    turned_by(lambda positions, theta, d_k: parameter(angles(positions, d_k, theta)))
)
fault("rope", "the input is detached", "no gradient")(
    rope(lambda x, positions, theta, d_k: rotate(x.detach(), angles(positions, d_k, theta)))
)
fault("rope", "nothing is rotated", "nothing is rotated")(rope(lambda x, *_: x.clone()))
fault("rope", "the position counts from the end of the row", "from the end of the row")(
    rope(lambda x, p, theta, d_k: rotate(x, angles(p - x.shape[-2] + 1, d_k, theta)))
)


@fault("rope", "the table lacks the last position", "without the last position")
def short_table(d_k, theta, max_seq_len, in_query_or_key, token_positions):
    table = angles(torch.arange(max_seq_len - 1), d_k, theta)
    return rotate(in_query_or_key, table[token_positions])


@fault("rope", "only half of the features are rotated", "first half of the features")
@rope
def partly_rotated(x, positions, theta, d_k):
    half = d_k // 4 * 2
    turned = rotate(x, angles(positions, d_k, theta))
    return torch.cat([turned[..., :half], x[..., half:]], -1)


@fault(
    "rope",
    "the table of the first call is kept",
    ("kept from an earlier call", "kept in the class"),
)
def first_table_kept(d_k, theta, max_seq_len, in_query_or_key, token_positions):
    table = angles(torch.arange(max(max_seq_len, 4096)), d_k, theta)
    table = KEPT.setdefault(d_k, table)
    return rotate(in_query_or_key, table[token_positions])


@fault("rope", "an odd d_k loses its last feature", "took d_k=5 without an error")
@rope
def odd_feature_lost(x, positions, theta, d_k):
    even = d_k // 2 * 2
    return rotate(x[..., :even], angles(positions, even, theta))


@fault("rope", "the halves are joined end to end", "joined end to end")
@rope
def not_interleaved_again(x, positions, theta, d_k):
    turned = rotate(x, angles(positions, d_k, theta))
    return torch.cat([turned[..., 0::2], turned[..., 1::2]], -1)


@fault("rope", "the input is changed in place", "in place")
@rope
def rope_in_place(x, positions, theta, d_k):
    turned = rotate(x, angles(positions, d_k, theta))
    return turned if x.requires_grad else x.copy_(turned)


@variant("rope", "complex numbers")
@rope
def by_complex_numbers(x, positions, theta, d_k):
    angle = angles(positions, d_k, theta)
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2).contiguous())
    turned = pairs * torch.polar(torch.ones_like(angle), angle)
    return torch.view_as_real(turned).flatten(-2).to(x.dtype)


@variant("rope", "a table of angles that is looked up")
def by_table(d_k, theta, max_seq_len, in_query_or_key, token_positions):
    table = angles(torch.arange(max_seq_len), d_k, theta)
    return rotate(in_query_or_key, table[token_positions])


@variant("rope", "a two-by-two matrix for each pair")
@rope
def by_matrix(x, positions, theta, d_k):
    angle = angles(positions, d_k, theta)
    cos, sin = angle.cos(), angle.sin()
    rows = [torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)]
    matrix = torch.stack(rows, -2).to(x.dtype)
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    return torch.einsum("... i j, ... j -> ... i", matrix, pairs).flatten(-2)


@variant("rope", "x cos + (x with its pairs swapped) sin")
@rope
def by_swapped_pairs(x, positions, theta, d_k):
    angle = angles(positions, d_k, theta).repeat_interleave(2, -1)
    swapped = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)
    return (x * angle.cos() + swapped * angle.sin()).to(x.dtype)


@variant("rope", "frequencies by a reciprocal")
@rope
def by_reciprocal(x, positions, theta, d_k):
    frequencies = 1.0 / theta ** (torch.arange(0, d_k, 2).float() / d_k)
    return rotate(x, torch.einsum("...,i->...i", positions.float(), frequencies))


@variant("rope", "frequencies by exp and log")
@rope
def by_exp_and_log(x, positions, theta, d_k):
    frequencies = torch.exp(-torch.arange(0, d_k, 2).float() / d_k * math.log(theta))
    return rotate(x, positions[..., None].float() * frequencies)


@variant("rope", "other types than float32 are refused without a word")
@rope
def float32_alone(x, positions, theta, d_k):
    assert x.dtype == torch.float32
    return rotate(x, angles(positions, d_k, theta))


@variant("rope", "the result of a low precision stays in float32")
@rope
def float32_result(x, positions, theta, d_k):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return rotate(wide, angles(positions, d_k, theta))
