"""Weights that the model initialises, not the layer, are found where that is done."""

import os

import pytest
from test_examination import sit

SUBMISSION = {
    "lm.py": """
import math

import torch
from torch import nn

class Linear(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_out, d_in))

    def forward(self, x):
        return x @ self.weight.T

class Table(nn.Module):
    def __init__(self, size, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size, width))

    def forward(self, ids):
        return self.weight[ids]

class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.weight

class Gated(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.w1, self.w3 = Linear(width, hidden), Linear(width, hidden)
        self.w2 = Linear(hidden, width)

    def forward(self, x):
        gate = self.w1(x)
        return self.w2(gate * torch.sigmoid(gate) * self.w3(x))

def initialise(module):
    if isinstance(module, Linear):
        sigma = math.sqrt(2 / sum(module.weight.shape))
        nn.init.trunc_normal_(module.weight, 0, sigma, -3 * sigma, 3 * sigma)
    elif isinstance(module, Table):
        nn.init.trunc_normal_(module.weight, 0, 1, -3, 3)
    elif isinstance(module, Norm):
        nn.init.ones_(module.weight)

class Model(nn.Module):
    def __init__(self, size, width, hidden, where):
        super().__init__()
        self.token_embeddings, self.ln_final = Table(size, width), Norm(width)
        self.ffn, self.lm_head = Gated(width, hidden), Linear(width, size)
        if where == "in the constructor":
            self.apply(initialise)
""",
    "tests/adapters.py": """
import os

from lm import Gated, Linear, Model, Norm, Table, initialise

def loaded(module, **weights):
    module.load_state_dict({name.replace("_", "."): value for name, value in weights.items()})
    return module

def run_linear(d_in, d_out, weights, in_features):
    return loaded(Linear(d_in, d_out), weight=weights)(in_features)

def run_embedding(vocab_size, d_model, weights, token_ids):
    return loaded(Table(vocab_size, d_model), weight=weights)(token_ids)

def run_rmsnorm(d_model, eps, weights, in_features):
    return loaded(Norm(d_model), weight=weights)(in_features)

def run_swiglu(d_model, d_ff, in_features, **weights):
    return loaded(Gated(d_model, d_ff), **weights)(in_features)

def run_transformer_lm(vocab_size, d_model, d_ff, weights, in_indices, **others):
    where = os.environ["INITIALISED"]
    model = Model(vocab_size, d_model, d_ff, where)
    if where == "after it":
        model.apply(initialise)
    model.load_state_dict(weights, strict=False)
    return model.lm_head(model.ln_final(model.token_embeddings(in_indices)))
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("where", ["after it", "in the constructor", "nowhere"])
def test_the_model_may_initialise_its_layers(tmp_path, monkeypatch, where):
    monkeypatch.setitem(os.environ, "INITIALISED", where)
    problems = ("linear", "embedding", "rmsnorm", "positionwise_feedforward")
    _, rows = sit(tmp_path, SUBMISSION, "-k", "starts_from", problems=problems)
    assert {row["problem"] for row in rows} == {*problems}
    seen = {row["outcome"] for row in rows}
    assert seen == ({"failed"} if where == "nowhere" else {"passed"}), rows
    if where == "nowhere":
        assert all("nothing is written to" in r["message"] for r in rows)
