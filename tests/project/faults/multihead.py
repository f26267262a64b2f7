"""Multi-head self-attention."""

import math

import torch
from einops import rearrange
from torch import nn
from torch.nn import functional

from faults.bank import fault, variant
from faults.parts import (
    attention,
    causal,
    merge_heads,
    multihead,
    parameter,
    projections,
    split_heads,
)

PLAIN = "multihead_self_attention"


def plain(**changes):
    """Make an adapter of parts.multihead with some of its parts exchanged."""

    def run(num_heads, in_features, **given):
        return multihead(in_features, projections(**only_weights(given)), num_heads, **changes)

    return run


def only_weights(given):
    return {name: value for name, value in given.items() if name.endswith("_proj_weight")}


def split_by_reshape(x, num_heads):
    return x.reshape(*x.shape[:-2], num_heads, x.shape[-2], -1)


def split_interleaved(x, num_heads):
    return rearrange(x, "... seq (d heads) -> ... heads seq d", heads=num_heads)


def merge_by_reshape(x):
    return x.reshape(*x.shape[:-3], x.shape[-2], -1)


def merge_interleaved(x):
    return rearrange(x, "... heads seq d -> ... seq (d heads)")


fault(PLAIN, "there is no causal mask", "no causal mask")(plain(mask=lambda _: None))
fault(PLAIN, "positions do not see themselves", "must see itself")(
    plain(mask=lambda length: causal(length, -1))
)
fault(PLAIN, "positions see the next one", "next one")(plain(mask=lambda length: causal(length, 1)))
fault(PLAIN, "the causal mask is inverted", "inverted")(plain(mask=lambda length: ~causal(length)))
fault(PLAIN, "the causal mask is transposed", "transposed")(
    plain(mask=lambda length: causal(length).T)
)
fault(PLAIN, "the heads are split by a reshape", "split by a reshape")(
    plain(split=split_by_reshape)
)
fault(PLAIN, "the heads are merged by a reshape", "merged by a reshape")(
    plain(merge=merge_by_reshape)
)
fault(PLAIN, "the heads are split and merged by a reshape", "merged without one")(
    plain(split=split_by_reshape, merge=merge_by_reshape)
)
fault(PLAIN, "the heads are interleaved", "interleaved")(
    plain(split=split_interleaved, merge=merge_interleaved)
)
fault(PLAIN, "the heads are merged as (d heads)", "(d_head heads)")(plain(merge=merge_interleaved))
fault(PLAIN, "the scores are not scaled", "not scaled")(plain(scale=1.0))


@fault(PLAIN, "the scale is 1 / sqrt(d_model)", "sqrt(d_model)")
def scaled_by_d_model(d_model, num_heads, in_features, **given):
    weights = projections(**only_weights(given))
    return multihead(in_features, weights, num_heads, scale=d_model**-0.5)


@fault(PLAIN, "the scale is 1 / d_head", "divided by d_head")
def scaled_by_d_head(d_model, num_heads, in_features, **given):
    weights = projections(**only_weights(given))
    return multihead(in_features, weights, num_heads, scale=num_heads / d_model)


@fault(PLAIN, "num_heads is ignored", "single head")
def one_head(**given):
    return plain()(**given | {"num_heads": 1})


@fault(PLAIN, "the output projection is missing", "output projection is missing")
def without_output(d_model, o_proj_weight, **given):
    return plain()(o_proj_weight=torch.eye(d_model, dtype=o_proj_weight.dtype), **given)


def with_roles(new_roles):
    """Hand the weights of queries, keys, values and output, q k v o, over in another order."""

    def run(**given):
        roles = {
            f"{role}_proj_weight": given[f"{new}_proj_weight"]
            for role, new in zip("qkvo", new_roles, strict=True)
        }
        return plain()(**given | roles)

    return run


fault(PLAIN, "queries and keys are swapped", "queries and keys are swapped")(with_roles("kqvo"))
fault(PLAIN, "keys and values are swapped", "keys and values are swapped")(with_roles("qvko"))
fault(PLAIN, "value and output weights are swapped", "value weights are swapped")(
    with_roles("qkov")
)
fault(PLAIN, "the keys are made with the query weight", "made with the query weights")(
    with_roles("qqvo")
)


@fault(PLAIN, "the weights are transposed", "weights are transposed")
def transposed_weights(**given):
    return plain()(**given | {name: w.T for name, w in only_weights(given).items()})


@fault(PLAIN, "the output weight is transposed", "output weight is transposed")
def transposed_output(o_proj_weight, **given):
    return plain()(o_proj_weight=o_proj_weight.T, **given)


@fault(PLAIN, "the input is detached", "no gradient to in_features")
def detached_input(in_features, **given):
    return plain()(in_features=in_features.detach(), **given)


class MaskElsewhere(nn.Module):
    """Makes its mask on the CPU, wherever its input is."""

    def __init__(self, num_heads, weights):
        super().__init__()
        self.num_heads = num_heads
        self.weights = nn.ParameterList(weights)

    def forward(self, x):
        return multihead(x, list(self.weights), self.num_heads)


@fault(PLAIN, "the mask is made on the CPU", "stayed behind")
def mask_elsewhere(num_heads, in_features, **given):
    return MaskElsewhere(num_heads, projections(**only_weights(given)))(in_features)


class Buffered(nn.Module):
    """Keeps a mask for the longest sequence, of its own names, in a buffer."""

    def __init__(self, num_heads, weights, longest):
        super().__init__()
        self.num_heads = num_heads
        inward = torch.cat([weight.detach() for weight in weights[:3]])
        self.qkv, self.out = nn.Linear(*inward.shape[::-1], bias=False), nn.Parameter(weights[3])
        self.load_state_dict({"qkv.weight": inward}, strict=False)
        self.register_buffer("visible", causal(longest), persistent=False)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            z.view(batch, length, self.num_heads, -1).transpose(1, 2)
            for z in self.qkv(x).split(width, -1)
        )
        mixed = attention(q, k, v, self.visible[:length, :length])
        return mixed.transpose(1, 2).contiguous().view(batch, length, width) @ self.out.T


@variant(PLAIN, "a module with a mask in a buffer, for three axes")
def buffered(num_heads, in_features, **given):
    x = in_features.reshape(-1, *in_features.shape[-2:])
    module = Buffered(num_heads, projections(**only_weights(given)), 64)
    return module(x).reshape(in_features.shape)


@fault(PLAIN, "there is dropout", "Dropout")
def with_dropout(in_features, **given):
    return functional.dropout(plain()(in_features=in_features, **given), 0.1)


@fault(PLAIN, "the value weight is transposed", "value weight is transposed")
def transposed_values(v_proj_weight, **given):
    return plain()(v_proj_weight=v_proj_weight.T, **given)


@fault(PLAIN, "the causal mask covers eight positions only", "first few positions")
@lambda mask: plain(mask=mask)
def mask_of_eight(length):
    rest = max(length - 8, 0)
    return functional.pad(causal(8), (0, rest, 0, rest))[:length, :length]


@fault(PLAIN, "there must be exactly one batch axis", "exactly one batch axis")
@lambda split: plain(split=split)
def three_axes_only(x, num_heads):
    return rearrange(x, "b seq (heads d) -> b heads seq d", heads=num_heads)


variant(PLAIN, "written out")(plain())


class Triangular(nn.Module):
    """Attention that makes its mask where the input is."""

    def __init__(self, weights, num_heads):
        super().__init__()
        self.weights, self.num_heads = nn.ParameterList(weights), num_heads

    def forward(self, x):
        square = torch.ones(2 * x.shape[-2:-1], dtype=torch.bool, device=x.device)
        return multihead(x, list(self.weights), self.num_heads, mask=lambda _: torch.tril(square))


@variant(PLAIN, "a module that makes its mask where the input is")
def triangular(num_heads, in_features, **given):
    return Triangular(projections(**only_weights(given)), num_heads)(in_features)


@variant(PLAIN, "one fused QKV weight")
def fused_qkv(num_heads, in_features, q_proj_weight, k_proj_weight, v_proj_weight, **given):
    weight = parameter(torch.cat([q_proj_weight, k_proj_weight, v_proj_weight]))
    q, k, v = (split_heads(z, num_heads) for z in (in_features @ weight.T).chunk(3, -1))
    mixed = attention(q, k, v, causal(in_features.shape[-2]))
    return merge_heads(mixed) @ parameter(given["o_proj_weight"]).T


@variant(PLAIN, "one QKV weight of three axes")
def stacked_qkv(num_heads, in_features, q_proj_weight, k_proj_weight, v_proj_weight, **given):
    weight = parameter(torch.stack([q_proj_weight, k_proj_weight, v_proj_weight]))
    q, k, v = (split_heads(in_features @ weight[i].T, num_heads) for i in range(3))
    mixed = attention(q, k, v, causal(in_features.shape[-2]))
    return merge_heads(mixed) @ parameter(given["o_proj_weight"]).T


@variant(PLAIN, "a projection for each head")
def projection_for_each_head(num_heads, in_features, o_proj_weight, **given):
    heads = zip(
        *(map(parameter, w.unflatten(0, (num_heads, -1))) for w in only_weights(given).values()),
        strict=True,
    )
    mixed = [
        attention(*(in_features @ w.T for w in weights), causal(in_features.shape[-2]))
        for weights in heads
    ]
    return torch.cat(mixed, -1) @ parameter(o_proj_weight).T


@variant(PLAIN, "projections for each head as the paper has them, x W")
def projections_of_the_paper(num_heads, in_features, o_proj_weight, **given):
    heads = zip(
        *(
            [parameter(rows.T.contiguous()) for rows in w.unflatten(0, (num_heads, -1))]
            for w in only_weights(given).values()
        ),
        strict=True,
    )
    mixed = [
        attention(*(in_features @ w for w in weights), causal(in_features.shape[-2]))
        for weights in heads
    ]
    return torch.cat(mixed, -1) @ parameter(o_proj_weight).T


@variant(PLAIN, "torch's own attention with is_causal")
def torch_attention(num_heads, in_features, **given):
    *inward, output = projections(**only_weights(given))
    q, k, v = (split_heads(in_features @ weight.T, num_heads) for weight in inward)
    mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return merge_heads(mixed) @ output.T


@variant(PLAIN, "einsum over heads")
def einsum_over_heads(num_heads, in_features, **given):
    x, length = in_features, in_features.shape[-2]
    *inward, output = projections(**only_weights(given))
    q, k, v = (
        torch.einsum("... s i, h d i -> ... h s d", x, w.view(num_heads, -1, x.shape[-1]))
        for w in inward
    )
    scores = torch.einsum("... h q d, ... h k d -> ... h q k", q, k) / math.sqrt(q.shape[-1])
    weights = torch.softmax(scores + torch.full((length, length), -math.inf).triu(1), -1)
    mixed = torch.einsum("... h q k, ... h k d -> ... h q d", weights, v)
    heads = output.view(-1, num_heads, q.shape[-1])
    return torch.einsum("... h q d, o h d -> ... q o", mixed, heads)
