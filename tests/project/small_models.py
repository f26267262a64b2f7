"""Small models of every form, their fast twins, and what a training step reads of them."""

import numpy as np
import torch
from torch import nn

from cs_basics.fast import accelerate
from cs_basics.functional import cross_entropy
from cs_basics.settings.model import ModelConfig
from cs_basics.transformer import TransformerLM
from cs_basics.variants.model import Transformer

SIZES = {
    "vocab_size": 50, "context_length": 160, "d_model": 32, "num_layers": 2, "num_heads": 4,
    "d_ff": 48,
}  # fmt: skip
FORMS = {
    "the book's": {},
    "post-norm": {"placement": "post", "norm": "layernorm"},
    "sandwich": {
        "placement": "sandwich", "norm": "rmsnorm-gemma", "norm_eps": 0.1, "ffn": "gelu",
    },
    "no norms, no positions": {"placement": "none", "positions": "none"},
    # With a small eps, what is divided by two numbers that nearly vanish differs by rounding.
    "grouped, tied": {
        "num_kv_heads": 2, "tie_embeddings": True, "norm": "partial-rmsnorm", "norm_eps": 0.1,
    },
    "heads of 12": {
        "num_heads": 3, "head_dim": 12, "num_kv_heads": 1, "ffn": "silu",
        "norm": "layernorm-no-bias", "norm_eps": 0.1,
    },
    "group norm, relu": {"norm": "group-rmsnorm", "norm_eps": 0.1, "ffn": "relu"},
    "QK-norm, llama's order": {
        "qk_norm": True, "norm": "rmsnorm-llama", "norm_eps": 0.1, "head_dim": 6,
    },
    "QK-norm, one head of keys, no positions": {
        "qk_norm": True, "num_kv_heads": 1, "positions": "none", "ffn": "relu-squared",
    },
    "value residual": {
        "value_residual": True, "tie_embeddings": True, "head_bias": True, "num_layers": 3,
    },
    "value residual, grouped, QK-norm": {
        "value_residual": True, "num_kv_heads": 2, "qk_norm": True, "num_layers": 3,
    },
}  # fmt: skip
"""Every part in which models differ, at least once."""


def rms(x, eps, measured=None):
    measured = x if measured is None else measured
    return x / np.sqrt(np.mean(measured * measured, -1, keepdims=True) + eps)


def centred(x):
    return x - x.mean(-1, keepdims=True)


NORM_FORMULAS = {
    "rmsnorm": lambda x, eps, weight: rms(x, eps) * weight,
    "rmsnorm-llama": lambda x, eps, weight: rms(x, eps) * weight,
    "rmsnorm-gemma": lambda x, eps, weight: rms(x, eps) * (1 + weight),
    "layernorm": lambda x, eps, weight, bias: rms(centred(x), eps) * weight + bias,
    "layernorm-no-bias": lambda x, eps, weight: rms(centred(x), eps) * weight,
    "partial-rmsnorm": lambda x, eps, weight: rms(x, eps, x[..., :2]) * weight,
    "group-rmsnorm": lambda x, eps, weight: (
        np.concatenate([rms(part, eps) for part in np.split(x, 8, -1)], -1) * weight
    ),
}
"""What each norm returns, in NumPy: of x, eps and its parameters by name."""


def book_model():
    """Build a very small model of the book, in float64."""
    torch.manual_seed(0)
    return TransformerLM(20, 8, 16, 1, 2, 24, dtype=torch.float64)


def batches_of_ids(count):
    """Return as many batches for it, each of ids and targets."""
    ids = torch.randint(20, (count, 4, 9), generator=torch.Generator().manual_seed(0))
    return [(part[:, :-1], part[:, 1:]) for part in ids]


def small_model(dtype=None, seed=0, **choices):
    """Build a model with random gains, scales and biases: one that is left out shows."""
    torch.manual_seed(seed)
    model = Transformer(ModelConfig(**SIZES | choices), dtype=dtype)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            nn.init.trunc_normal_(parameter, mean=0.8, std=0.3)
    return model


def fast_twin(model):
    """Return the fast twin of a Transformer, with the same weights."""
    twin = accelerate(type(model))(model.config)
    twin.load_state_dict(model.state_dict())
    return twin


def batch_of(*shape):
    """Return ids and targets."""
    rows, seq = shape
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(SIZES["vocab_size"], (rows, seq + 1), generator=generator)
    return ids[:, :-1], ids[:, 1:]


def loss_and_gradients(model, batch, loss_of=None):
    """Return the loss and the gradient of each parameter, by name."""
    model.zero_grad()
    ids, targets = batch
    loss = cross_entropy(model(ids), targets) if loss_of is None else loss_of(ids, targets)
    loss.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    return {"loss": loss.detach(), **gradients}


def assert_same(found, expected, tolerance=1e-5):
    """Compare named tensors within a share of the largest value of each."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        limit = tolerance * float(value.abs().max())
        torch.testing.assert_close(found[name], value, rtol=0, atol=limit, msg=name)
