"""What fresh modules start from and what they save, before an adapter loads its weights."""

import math

import torch
from torch import nn

from faults.bank import REFERENCE, fault, variant
from faults.parts import angles, mean_square, rotate, silu


class Learned(nn.Module):
    """One weight that starts as `initial` says."""

    def __init__(self, initial):
        super().__init__()
        self.weight = nn.Parameter(initial)


def made(initial, weight):
    """A module that started from `initial(*shape)` and has loaded its weight since."""
    module = Learned(initial(*weight.shape))
    module.load_state_dict({"weight": weight})
    return module.weight


def linear_from(initial):
    def run_linear(weights, in_features, **_):
        return in_features @ made(initial, weights).T

    return run_linear


def embedding_from(initial):
    def run_embedding(weights, token_ids, **_):
        return made(initial, weights)[token_ids]

    return run_embedding


def swiglu_from(initial):
    def run_swiglu(w1_weight, w2_weight, w3_weight, in_features, **_):
        w1, w2, w3 = (made(initial, weight) for weight in (w1_weight, w2_weight, w3_weight))
        return (silu(in_features @ w1.T) * (in_features @ w3.T)) @ w2.T

    return run_swiglu


def rmsnorm_from(initial):
    def run_rmsnorm(eps, weights, in_features, **_):
        x = in_features.float()
        gain = made(initial, weights)
        return (x * torch.rsqrt(mean_square(x) + eps) * gain).to(in_features.dtype)

    return run_rmsnorm


def truncated(sigma):
    """A start from N(0, sigma(d_out, d_in)) without what is beyond three sigma."""

    def initial(rows, columns):
        limit = 3 * sigma(rows, columns)
        return nn.init.trunc_normal_(torch.empty(rows, columns), 0, limit / 3, -limit, limit)

    return initial


def right_sigma(d_out, d_in):
    return math.sqrt(2 / (d_in + d_out))


def untruncated(sigma):
    return lambda rows, columns: torch.randn(rows, columns) * sigma(rows, columns)


def kaiming_uniform(rows, columns):
    return torch.empty(rows, columns).uniform_(-(columns**-0.5), columns**-0.5)


fault("linear", "weights start from N(0, 1)", "sigma is 1")(linear_from(truncated(lambda *_: 1)))
fault("linear", "the variance stands in for sigma", "that is the variance")(
    linear_from(truncated(lambda rows, columns: right_sigma(rows, columns) ** 2))
)
fault("linear", "sigma is sqrt(1 / d_in)", "sigma is sqrt(1 / d_in)")(
    linear_from(truncated(lambda _, columns: columns**-0.5))
)
fault("linear", "weights start as torch's own do", "as in torch.nn.Linear")(
    linear_from(kaiming_uniform)
)
fault("linear", "fresh weights are not truncated", "not truncated")(
    linear_from(untruncated(right_sigma))
)
fault("linear", "weights start from zero", "standard deviation 0")(linear_from(torch.zeros))
fault("embedding", "rows start with sigma 0.02", "sigma is 0.02")(
    embedding_from(truncated(lambda *_: 0.02))
)
fault("embedding", "rows start like a linear layer's", "which is for linear layers")(
    embedding_from(truncated(right_sigma))
)
fault("embedding", "fresh rows are not truncated", "not truncated")(embedding_from(torch.randn))
fault("positionwise_feedforward", "weights start from N(0, 1)", "sigma is 1")(
    swiglu_from(truncated(lambda *_: 1))
)
fault("rmsnorm", "the gain starts from 0", "expected 1")(rmsnorm_from(torch.zeros))
fault("rmsnorm", "the gain starts from N(0, 1)", "expected 1")(rmsnorm_from(torch.randn))

variant("linear", "a module that loads its weight")(linear_from(truncated(right_sigma)))
variant("embedding", "a module that loads its weight")(embedding_from(truncated(lambda *_: 1)))
variant("positionwise_feedforward", "three modules that load their weights")(
    swiglu_from(truncated(right_sigma))
)
variant("rmsnorm", "a module that loads its gain")(rmsnorm_from(torch.ones))


class Gated(nn.Module):
    """SwiGLU's three weights in one module."""

    def __init__(self, starts):
        super().__init__()
        for number, start in enumerate(starts, 1):
            setattr(self, f"w{number}", nn.Parameter(start))

    def forward(self, x):
        return (silu(x @ self.w1.T) * (x @ self.w3.T)) @ self.w2.T


def gated_from(*initials):
    def run_swiglu(w1_weight, w2_weight, w3_weight, in_features, **_):
        given = (w1_weight, w2_weight, w3_weight)
        starts = (make(*weight.shape) for make, weight in zip(initials, given, strict=True))
        module = Gated(starts)
        module.load_state_dict({f"w{number}": weight for number, weight in enumerate(given, 1)})
        return module(in_features)

    return run_swiglu


def seeded(*shape):
    torch.manual_seed(0)
    return truncated(right_sigma)(*shape)


DRAWN = truncated(right_sigma)
fault("positionwise_feedforward", "W2 is left as memory was", "written to 1 of 3")(
    gated_from(DRAWN, torch.empty, DRAWN)
)
fault("positionwise_feedforward", "each weight is drawn from the same seed", "two fresh weights")(
    gated_from(seeded, seeded, seeded)
)
variant("positionwise_feedforward", "one module that loads its weights")(
    gated_from(DRAWN, DRAWN, DRAWN)
)


class Whole(nn.Module):
    """All weights of a model, and a buffer if it is given one."""

    def __init__(self, weights, start, saved=None):
        super().__init__()
        for name, weight in weights.items():
            value = start(name, *weight.shape) if weight.ndim == 2 else torch.ones(weight.shape)
            self.register_parameter(name.replace(".", "_"), nn.Parameter(value))
        if saved is not None:
            self.register_buffer("saved", saved)


def model_from(start, saved=lambda _: None):
    def run_transformer_lm(weights, context_length, **given):
        module = Whole(weights, start, saved(context_length))
        loaded = {name.replace(".", "_"): weight for name, weight in weights.items()}
        module.load_state_dict(loaded, strict=False)
        return REFERENCE.run_transformer_lm(weights=weights, context_length=context_length, **given)

    return run_transformer_lm


def as_asked(name, rows, columns):
    return torch.randn(rows, columns) if "embeddings" in name else DRAWN(rows, columns)


fault("transformer_lm", "no weight is initialised", "whatever lay in memory")(
    model_from(lambda _, *shape: torch.empty(*shape))
)
fault("transformer_lm", "all weights start from N(0, 1)", "sigma is 1")(
    model_from(lambda _, *shape: torch.randn(*shape))
)
fault("transformer_lm", "all weights start from N(0, 0.02^2)", "standard deviation 0.0")(
    model_from(lambda _, *shape: 0.02 * torch.randn(*shape))
)
fault("transformer_lm", "queries start from zero", "standard deviation 0,")(
    model_from(lambda name, *shape: as_asked(name, *shape) * ("q_proj" not in name))
)
fault("transformer_lm", "each weight is drawn from the same seed", "two fresh weights")(
    model_from(lambda name, *shape: (torch.manual_seed(0), as_asked(name, *shape))[1])
)
fault("transformer_lm", "the output head starts from N(0, 1)", "the output head has")(
    model_from(lambda name, *shape: as_asked(name.replace("head", "embeddings"), *shape))
)
fault("transformer_lm", "RoPE's tables are saved in the state dict", "persistent=False")(
    model_from(as_asked, lambda length: torch.zeros(length, 2))
)
variant("transformer_lm", "a causal mask is saved in the state dict")(
    model_from(as_asked, lambda length: torch.ones(length, length).tril())
)


@variant("linear", "fresh weights beyond three sigma are drawn again")
@linear_from
def drawn_again(rows, columns):
    weight = torch.randn(rows, columns)
    while (far := weight.abs() > 3).any():
        weight = torch.where(far, torch.randn(rows, columns), weight)
    return weight * right_sigma(rows, columns)


class Tables(nn.Module):
    """RoPE's cosines and sines for every position."""

    def __init__(self, angle, is_saved):
        super().__init__()
        self.register_buffer("cos", angle.cos(), persistent=is_saved)
        self.register_buffer("sin", angle.sin(), persistent=is_saved)

    def forward(self, x, positions):
        cos, sin = self.cos[positions], self.sin[positions]
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1)
        return turned.flatten(-2).to(x.dtype)


def rope_by_tables(is_saved):
    def run_rope(d_k, theta, max_seq_len, in_query_or_key, token_positions):
        tables = Tables(angles(torch.arange(max_seq_len), d_k, theta), is_saved)
        return tables(in_query_or_key, token_positions)

    return run_rope


fault("rope", "the tables are saved in the state dict", "persistent=False")(
    rope_by_tables(is_saved=True)
)
variant("rope", "tables in buffers that are not saved")(rope_by_tables(is_saved=False))


class FrozenTables(nn.Module):
    """Tables that are parameters without a gradient, which a state dict holds."""

    def __init__(self, angle):
        super().__init__()
        self.cos = nn.Parameter(angle.cos(), requires_grad=False)
        self.sin = nn.Parameter(angle.sin(), requires_grad=False)

    forward = Tables.forward


@fault("rope", "the tables are frozen parameters, which are saved", "persistent=False")
def frozen_tables(d_k, theta, max_seq_len, in_query_or_key, token_positions):
    tables = FrozenTables(angles(torch.arange(max_seq_len), d_k, theta))
    return tables(in_query_or_key, token_positions)


@variant("linear", "a module without memory, which is given its weight")
def made_on_meta(weights, in_features, **_):
    with torch.device("meta"):
        module = Learned(torch.empty(weights.shape))
    module.load_state_dict({"weight": weights}, assign=True)
    return in_features @ module.weight.T


class Frequencies(nn.Module):
    def __init__(self, d_k, theta):
        super().__init__()
        self.register_buffer("frequencies", theta ** -(torch.arange(0, d_k, 2).float() / d_k))


@variant("rope", "a small buffer of frequencies is saved")
def saved_frequencies(d_k, theta, in_query_or_key, token_positions, **_):
    frequencies = Frequencies(d_k, theta).frequencies
    return rotate(in_query_or_key, token_positions[..., None].float() * frequencies)


class PlainTables(nn.Module):
    """Tables that are no buffers."""

    def __init__(self, angle):
        super().__init__()
        self.cos, self.sin = angle.cos(), angle.sin()

    forward = Tables.forward


@fault("rope", "the tables are no buffers and stay on the first device", "stayed behind")
def plain_tables(d_k, theta, max_seq_len, in_query_or_key, token_positions):
    tables = PlainTables(angles(torch.arange(max_seq_len), d_k, theta))
    return tables(in_query_or_key, token_positions)


class ComplexTable(nn.Module):
    """Complex numbers for every position up to the longest, which it insists on."""

    def __init__(self, angle):
        super().__init__()
        self.register_buffer("turns", torch.polar(torch.ones_like(angle), angle), persistent=False)

    def forward(self, x, token_positions):
        assert token_positions.max() < len(self.turns), "a position is out of range"
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * self.turns[token_positions]).flatten(-2).to(x.dtype)


@variant("rope", "a buffer of complex numbers, and positions that are checked")
def complex_table(d_k, theta, max_seq_len, in_query_or_key, token_positions):
    table = ComplexTable(angles(torch.arange(max_seq_len), d_k, theta))
    return table(in_query_or_key, token_positions=token_positions)
