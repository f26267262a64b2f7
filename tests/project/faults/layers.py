"""Linear, embedding, SiLU, SwiGLU."""

import torch
from torch import nn
from torch.nn import functional

from faults.bank import fault, variant
from faults.parts import parameter, silu


def linear_layer(formula):
    """Make an adapter of `formula(x, weight)`, the weight being a parameter as in a module."""

    def run_linear(weights, in_features, **_):
        return formula(in_features, parameter(weights))

    return run_linear


fault("linear", "the weight is read through .data", "no gradient to weights")(
    linear_layer(lambda x, weight: x @ weight.data.T)
)
fault("linear", "the input is detached", "no gradient to in_features")(
    linear_layer(lambda x, weight: x.detach() @ weight.T)
)
fault("linear", "the product is computed in bfloat16", "pass through bfloat16")(
    linear_layer(lambda x, weight: (x.bfloat16() @ weight.T.bfloat16()).float())
)
fault("linear", "a bias is added", "a bias is added")(
    linear_layer(lambda x, weight: x @ weight.T + 0.01)
)


@fault("linear", "a square weight is not transposed", "transposed")
@linear_layer
def square_not_transposed(x, weight):
    return x @ weight if weight.shape[0] == weight.shape[1] else x @ weight.T


@fault(
    "linear",
    "view() needs the input to be contiguous",
    ("on contiguous tensors", "there may be none"),
)
@linear_layer
def flattened_by_view(x, weight):
    return (x.view(-1, x.shape[-1]) @ weight.T).view(*x.shape[:-1], -1)


@fault("linear", "the input is changed in place", "in place")
@linear_layer
def shifts_its_input(x, weight):
    return x.detach().add_(1e-3) @ weight.T


@fault("linear", "the weight is scaled by 1/sqrt(d_in)", "divided by sqrt(d_in)")
@linear_layer
def scaled(x, weight):
    return x @ weight.T / x.shape[-1] ** 0.5


@variant("linear", "the weight is kept in float64")
def kept_in_float64(weights, in_features, **_):
    return (in_features.double() @ parameter(weights.double()).T).to(in_features.dtype)


variant("linear", "torch's own linear")(linear_layer(functional.linear))
variant("linear", "einsum")(
    linear_layer(lambda x, weight: torch.einsum("... i, o i -> ... o", x, weight))
)


class LeftBehind(nn.Module):
    """Keeps its weight where it was made."""

    def __init__(self, weight):
        super().__init__()
        self.weight = parameter(weight)
        self.scale = torch.ones(weight.shape[0])

    def forward(self, x):
        return x @ self.weight.T * self.scale


@fault("linear", "a tensor that is no buffer stays on the first device", "stayed behind")
def left_behind(weights, in_features, **_):
    return LeftBehind(weights)(in_features)


class TransposedLinear(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.kernel = nn.Parameter(weight.detach().T.clone())

    def forward(self, x):
        return x @ self.kernel


@variant("linear", "the weight is stored (d_in, d_out)")
def stored_transposed(weights, in_features, **_):
    return TransposedLinear(weights)(in_features)


class Printing(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.renamed = nn.Parameter(torch.empty_like(weight))
        self.load_state_dict({"renamed": weight})
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        print("linear", tuple(x.shape))
        return torch.einsum("oi,...i->...o", self.renamed, x)


@variant("linear", "a module that prints, of another name and with a buffer")
def printing(weights, in_features, **_):
    return Printing(weights)(in_features)


@variant("linear", "a function on the given weights, without a module")
def without_module(weights, in_features, **_):
    return in_features @ weights.T


def embedding_layer(formula):
    """Make an adapter of `formula(token_ids, weight)`."""

    def run_embedding(weights, token_ids, **_):
        return formula(token_ids, parameter(weights))

    return run_embedding


fault("embedding", "the table is read through .data", "no gradient to weights")(
    embedding_layer(lambda ids, table: table.data[ids])
)
fault("embedding", "ids past the vocabulary are clamped", "without an error")(
    embedding_layer(lambda ids, table: table[ids.clamp(max=len(table) - 1)])
)
fault("embedding", "ids past the vocabulary wrap around", "without an error")(
    embedding_layer(lambda ids, table: table[ids % len(table)])
)
fault("embedding", "token 0 is taken for padding", "token 0 is taken for padding")(
    embedding_layer(lambda ids, table: table[ids] * (ids != 0)[..., None])
)
fault("embedding", "gradients are divided by how often an id occurs", "how often an id occurs")(
    embedding_layer(lambda ids, table: functional.embedding(ids, table, scale_grad_by_freq=True))
)
fault("embedding", "rows are scaled by sqrt(d_model)", "scaled by sqrt(d_model)")(
    embedding_layer(lambda ids, table: table[ids] * table.shape[1] ** 0.5)
)
fault("embedding", "rows are cut to norm 1", "scaled to length 1")(
    embedding_layer(lambda ids, table: functional.normalize(table[ids], dim=-1))
)
fault("embedding", "view() needs contiguous ids", "on contiguous tensors")(
    embedding_layer(lambda ids, table: table[ids.view(-1)].view(*ids.shape, table.shape[1]))
)

variant("embedding", "torch's own embedding")(embedding_layer(functional.embedding))
variant("embedding", "gather")(
    embedding_layer(
        lambda ids, t: t.gather(0, ids.reshape(-1, 1).expand(-1, t.shape[1])).view(
            *ids.shape, t.shape[1]
        )
    )
)
variant("embedding", "index_select")(
    embedding_layer(lambda ids, t: t.index_select(0, ids.flatten()).view(*ids.shape, t.shape[1]))
)


@variant("embedding", "one-hot vectors times the table")
@embedding_layer
def one_hot_times_table(ids, table):
    return functional.one_hot(ids, len(table)).to(table.dtype) @ table


def silu_of(formula):
    def run_silu(in_features):
        return formula(in_features)

    return run_silu


fault("silu", "it is GELU", "GELU stands in")(silu_of(functional.gelu))
fault("silu", "it is GELU's tanh form", "the tanh form of GELU")(
    silu_of(lambda x: functional.gelu(x, approximate="tanh"))
)
fault("silu", "it is ReLU", "ReLU stands")(silu_of(torch.relu))
fault("silu", "it is hard swish", "hard swish")(silu_of(functional.hardswish))
fault("silu", "the factor x is missing", "only the sigmoid")(silu_of(torch.sigmoid))
fault("silu", "the sigmoid is of -x", "sigmoid is of -x")(silu_of(lambda x: x * torch.sigmoid(-x)))
fault("silu", "exp(x) / (1 + exp(x)) overflows", "exp overflows")(
    silu_of(lambda x: x * (x.exp() / (1 + x.exp())))
)
fault(
    "silu", "the branch that is not taken overflows in the gradient", "worst at [0, 0, 0]: got nan"
)(
    silu_of(
        lambda x: torch.where(
            x >= 0, x / (1 + torch.exp(-x)), x * torch.exp(x) / (1 + torch.exp(x))
        )
    )
)
fault("silu", "it is cut off below -8", "small values are cut off")(
    silu_of(lambda x: torch.where(x < -8, torch.zeros_like(x), silu(x)))
)
fault("silu", "the sigmoid is detached", "sigmoid is detached")(
    silu_of(lambda x: x * torch.sigmoid(x).detach())
)
fault("silu", "the result is always float32", "dtype float32, expected")(
    silu_of(lambda x: silu(x.float()))
)


@fault("silu", "the input is changed in place", "in place")
def silu_in_place(in_features):
    if in_features.requires_grad:
        return silu(in_features)
    return in_features.mul_(torch.sigmoid(in_features))


fault("silu", "view() needs the input to be contiguous", "on contiguous tensors")(
    silu_of(lambda x: silu(x.view(-1)).view(x.shape))
)
variant("silu", "torch's own SiLU")(silu_of(functional.silu))
variant("silu", "x / (1 + exp(-x))")(silu_of(lambda x: x / (1 + torch.exp(-x))))
variant("silu", "by the hyperbolic tangent")(silu_of(lambda x: 0.5 * x * (1 + torch.tanh(x / 2))))


def swiglu(formula):
    """Make an adapter of `formula(x, w1, w2, w3)`."""

    def run_swiglu(w1_weight, w2_weight, w3_weight, in_features, **_):
        return formula(in_features, *map(parameter, (w1_weight, w2_weight, w3_weight)))

    return run_swiglu


def gated_by(activation):
    return swiglu(lambda x, w1, w2, w3: (activation(x @ w1.T) * (x @ w3.T)) @ w2.T)


fault("positionwise_feedforward", "W1 and W3 are swapped", "W1 and W3")(
    swiglu(lambda x, w1, w2, w3: (silu(x @ w3.T) * (x @ w1.T)) @ w2.T)
)
fault("positionwise_feedforward", "GELU is the gate", "GeGLU")(gated_by(functional.gelu))
fault("positionwise_feedforward", "ReLU is the gate", "ReGLU")(gated_by(torch.relu))
fault("positionwise_feedforward", "a sigmoid is the gate", "plain sigmoid")(gated_by(torch.sigmoid))
fault("positionwise_feedforward", "there is no activation", "bilinear")(gated_by(lambda z: z))
fault("positionwise_feedforward", "W3 is left out", "W3 is left out")(
    swiglu(lambda x, w1, w2, _: silu(x @ w1.T) @ w2.T)
)
fault("positionwise_feedforward", "the branches are added", "added instead of multiplied")(
    swiglu(lambda x, w1, w2, w3: (silu(x @ w1.T) + x @ w3.T) @ w2.T)
)
fault("positionwise_feedforward", "SiLU is applied to the product", "applied to the product")(
    swiglu(lambda x, w1, w2, w3: silu((x @ w1.T) * (x @ w3.T)) @ w2.T)
)
fault("positionwise_feedforward", "SiLU is applied to both branches", "both branches")(
    swiglu(lambda x, w1, w2, w3: (silu(x @ w1.T) * silu(x @ w3.T)) @ w2.T)
)
fault("positionwise_feedforward", "the input is added", "residual connection belongs")(
    swiglu(lambda x, w1, w2, w3: x + (silu(x @ w1.T) * (x @ w3.T)) @ w2.T)
)
fault(
    "positionwise_feedforward", "view() needs the input to be contiguous", "on contiguous tensors"
)(
    swiglu(
        lambda x, w1, w2, w3: (
            (silu(x.view(-1, x.shape[-1]) @ w1.T) * (x.view(-1, x.shape[-1]) @ w3.T)) @ w2.T
        ).view(x.shape)
    )
)
fault("positionwise_feedforward", "the gate is detached", "no gradient to w1")(
    gated_by(lambda z: silu(z).detach())
)
fault("positionwise_feedforward", "W2 is read through .data", "no gradient to w2")(
    swiglu(lambda x, w1, w2, w3: (silu(x @ w1.T) * (x @ w3.T)) @ w2.data.T)
)
fault("positionwise_feedforward", "the input is detached", "no gradient to in_features")(
    swiglu(lambda x, w1, w2, w3: (silu(x.detach() @ w1.T) * (x.detach() @ w3.T)) @ w2.T)
)


@variant("positionwise_feedforward", "W1 and W3 are one fused weight")
def fused_gate_and_value(w1_weight, w2_weight, w3_weight, in_features, **_):
    gate, value = (in_features @ parameter(torch.cat([w1_weight, w3_weight])).T).chunk(2, -1)
    return (silu(gate) * value) @ parameter(w2_weight).T


variant("positionwise_feedforward", "torch's own linear and SiLU")(
    swiglu(
        lambda x, w1, w2, w3: functional.linear(
            functional.silu(functional.linear(x, w1)) * functional.linear(x, w3), w2
        )
    )
)
