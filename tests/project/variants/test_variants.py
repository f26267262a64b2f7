"""Models of every form against one written out in NumPy, and which choices fit together."""

import math
from typing import get_args

import numpy as np
import pytest
import torch
from small_models import (
    FORMS,
    NORM_FORMULAS,
    SIZES,
    batch_of,
    loss_and_gradients,
    rms,
    small_model,
)

from cs_basics.norms import RMSNorm
from cs_basics.run.distributed import World
from cs_basics.run.layout import check_layout
from cs_basics.run.model import check_rooms
from cs_basics.settings.model import FeedForwardKind, ModelConfig, NormKind
from cs_basics.transformer import TransformerLM
from cs_basics.variants.attention import GroupedQueryAttention
from cs_basics.variants.feed_forward import ACTIVATIONS
from cs_basics.variants.model import NORMS, Transformer
from cs_basics.variants.norms import LlamaRMSNorm

IDS, _ = BATCH = batch_of(2, 9)
FORMULAS = {
    "silu": lambda x: x / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * 0.5 * np.vectorize(math.erfc)(-x / math.sqrt(2)),
    "relu-squared": lambda x: np.maximum(x, 0) ** 2,
}


class InNumPy:
    """The logits of one text, head by head and position by position."""

    def __init__(self, model):
        self.config = model.config
        self.weights = {name: value.numpy() for name, value in model.state_dict().items()}

    def norm(self, x, name):
        found = [key for key in self.weights if key.rpartition(".")[0] == name]
        given = {key.rpartition(".")[2]: self.weights[key] for key in found}
        return NORM_FORMULAS[self.config.norm](x, self.config.norm_eps, **given) if given else x

    def turned(self, vector, position):
        """Each pair (2 i, 2 i + 1) as a complex number, times e^(i angle)."""
        if self.config.positions == "none":
            return vector
        pairs = vector[0::2] + 1j * vector[1::2]
        angles = position * 10_000.0 ** (-np.arange(len(pairs)) / len(pairs))
        pairs = pairs * np.exp(1j * angles)
        return np.stack([pairs.real, pairs.imag], axis=-1).ravel()

    def attention(self, x, name, first):
        """Return what attention adds, and the values before they are mixed with the first."""
        num_heads, d_head = self.config.num_heads, self.config.d_head
        q, k, v = (x @ self.weights[f"{name}.attn.{part}_proj.weight"].T for part in "qkv")
        own = v
        if first is not None and self.config.value_residual:
            scales = self.weights[f"{name}.value_scales"]
            v = scales[0] * first + scales[1] * v

        def head_of(x, head, position, norm=None):
            vector = x[position, head * d_head : (head + 1) * d_head]
            if norm is None:
                return vector
            if self.config.qk_norm:
                vector = (
                    rms(vector, self.config.norm_eps) * self.weights[f"{name}.attn.{norm}.weight"]
                )
            return self.turned(vector, position)

        found = np.zeros_like(q)
        for head in range(num_heads):
            shared = head * v.shape[-1] // q.shape[-1]
            for t in range(len(x)):
                query = head_of(q, head, t, "q_norm")
                keys = np.array([head_of(k, shared, s, "k_norm") for s in range(t + 1)])
                exps = np.exp(keys @ query / np.sqrt(d_head))
                values = np.array([head_of(v, shared, s) for s in range(t + 1)])
                found[t, head * d_head : (head + 1) * d_head] = exps / exps.sum() @ values
        return found @ self.weights[f"{name}.attn.output_proj.weight"].T, own

    def feed_forward(self, x, name):
        w1, w2 = (self.weights[f"{name}.ffn.{part}.weight"] for part in ("w1", "w2"))
        if self.config.ffn != "swiglu":
            return FORMULAS[self.config.ffn](x @ w1.T) @ w2.T
        return FORMULAS["silu"](x @ w1.T) * (x @ self.weights[f"{name}.ffn.w3.weight"].T) @ w2.T

    def logits(self, ids):
        is_post, first = self.config.placement == "post", None
        x = self.weights["token_embeddings.weight"][ids]
        for layer in range(self.config.num_layers):
            name = f"layers.{layer}"
            read = x if is_post else self.norm(x, f"{name}.ln1")
            change, values = self.attention(read, name, first)
            first = values if first is None else first
            x = x + self.norm(change, f"{name}.ln1_after")
            x = self.norm(x, f"{name}.ln1") if is_post else x
            read = x if is_post else self.norm(x, f"{name}.ln2")
            x = x + self.norm(self.feed_forward(read, name), f"{name}.ln2_after")
            x = self.norm(x, f"{name}.ln2") if is_post else x
        head = self.norm(x, "ln_final") @ self.weights["lm_head.weight"].T
        return head + self.weights.get("lm_head.bias", 0)


@pytest.mark.parametrize("form", FORMS)
def test_a_model_is_what_its_configuration_says_and_every_part_of_it_learns(form):
    model = small_model(torch.float64, **FORMS[form])
    for text, logits in zip(IDS.numpy(), model(IDS).detach().numpy(), strict=True):
        # The book's table of angles is float32.
        np.testing.assert_allclose(logits, InNumPy(model).logits(text), rtol=1e-6, atol=1e-6)
    for name, gradient in loss_and_gradients(model, BATCH).items():
        assert gradient.isfinite().all(), name
        assert gradient.abs().max() > 0, name


@pytest.mark.parametrize(("name", "kinds"), [("norm", NormKind), ("ffn", FeedForwardKind)])
def test_every_kind_of_a_part_is_in_a_form(name, kinds):
    defaults = ModelConfig()
    found = {form.get(name, getattr(defaults, name)) for form in FORMS.values()}
    assert found == set(get_args(kinds))


def test_the_defaults_are_the_model_of_the_book_and_nothing_else():
    torch.manual_seed(7)
    built = Transformer(ModelConfig(**SIZES))
    torch.manual_seed(7)
    direct = TransformerLM(**SIZES)
    assert [type(m).forward for m in built.modules()] == [type(m).forward for m in direct.modules()]
    assert built.state_dict().keys() == direct.state_dict().keys()
    for name, value in direct.state_dict().items():
        assert torch.equal(built.state_dict()[name], value), name
    for one, other in zip(built.modules(), direct.modules(), strict=True):
        for constant in ("theta", "eps"):
            assert getattr(one, constant, None) == getattr(other, constant, None)


@pytest.mark.parametrize("wrong", [0, 3, 8])
def test_heads_that_cannot_be_shared_out_are_refused(wrong):
    with pytest.raises(ValueError, match=f"num_kv_heads={wrong} must be a divisor of num_heads=4"):
        GroupedQueryAttention(32, 4, None, num_kv_heads=wrong)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_hide_nothing_that_is_not_finite_and_have_their_slopes(activation):
    function = ACTIVATIONS[activation]
    assert function(torch.tensor([math.nan])).isnan().all()
    x = torch.tensor([-2.0, -0.3, 0.4, 3.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(function, x)


def test_tied_weights_are_one_parameter_with_the_scale_of_the_head():
    model = small_model(tie_embeddings=True)
    assert model.token_embeddings.weight is model.lm_head.weight
    large = small_model(tie_embeddings=True, vocab_size=500, d_model=64, num_layers=1, d_ff=64)
    assert large(IDS).std() < 3


@pytest.mark.parametrize("num_layers", [1, 3])
def test_value_scales_of_all_blocks_but_the_first_begin_at_a_half(num_layers):
    model = Transformer(ModelConfig(**SIZES | {"num_layers": num_layers, "value_residual": True}))
    assert model(IDS).shape == (2, 9, 50)
    scales = {name: p.tolist() for name, p in model.named_parameters() if "scales" in name}
    assert scales == {f"layers.{layer}.value_scales": [0.5] * 2 for layer in range(1, num_layers)}


@pytest.mark.parametrize(
    ("choice", "parallel", "way_out", "message"),
    [
        ({"value_residual": True}, "tp", "fsdp", "--value-residual: use ddp or fsdp, or --no-v"),
        ({"head_bias": True}, "tp", "fsdp", "share out --head-bias: use ddp or fsdp, or --no-h"),
        ({"optimizer": "muon"}, "tp", "ddp", "whole matrices, and with --parallel tp"),
        ({"optimizer": "muon"}, "fsdp", "ddp", "whole matrices, and with --parallel fsdp"),
    ],
)
def test_what_processes_cannot_share_out_is_refused(
    tiny_config, choice, parallel, way_out, message
):
    config = tiny_config.replace(**choice, parallel=parallel)
    with pytest.raises(ValueError, match=message):
        check_layout(config, World(0, 2))
    check_layout(config.replace(parallel=way_out), World(0, 2))
    check_layout(config, World(0, 1))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"norm": "group-rmsnorm", "d_model": 60, "num_heads": 6}, "d_model=60 is not divisible"),
        ({"norm": "batchnorm"}, "norm='batchnorm' is unknown"),
        ({"ffn": "tanh"}, "ffn='tanh' is unknown: choose one of swiglu, silu, "),
        ({"norm_eps": -1}, "norm_eps=-1 must be 0 or greater"),
        ({"norm": "layernorm", "placement": "none"}, "norm=layernorm has no effect with placement"),
        ({"norm_eps": 0.1, "placement": "none"}, "norm_eps=0.1 has no effect with placement=none"),
        ({"num_kv_heads": 3}, "num_kv_heads=3 must be a divisor of num_heads=16"),
        ({"num_heads": 512}, "heads of odd size 1: choose"),
        ({"head_dim": 0}, "head_dim=0 must be at least 1"),
        ({"head_dim": 7}, "head_dim=7 is odd"),
        ({"vocab_size": 0}, "vocab_size=0 must be at least 1"),
        ({"context_length": 1 << 21}, "context_length=2097152 must be at most 1048576"),
        ({"rope_theta": 0.0}, "rope_theta=0.0 must be greater than 0"),
        ({"value_residual": True, "placement": "post"}, "needs placement=pre, not placement=post"),
    ],
)
def test_choices_that_do_not_fit_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        ModelConfig(**wrong)


def test_an_eps_that_the_norm_does_not_have_is_refused(monkeypatch, tiny_config):
    monkeypatch.setitem(NORMS, "layernorm", lambda *_: torch.nn.Identity())
    config = tiny_config.replace(norm="layernorm")
    check_rooms(config)
    check_rooms(config.replace(norm_eps=0.1, qk_norm=True))  # The heads' norms have it.
    with pytest.raises(ValueError, match=r"norm_eps=0.1 has no effect with norm=layernorm"):
        check_rooms(config.replace(norm_eps=0.1))


def test_queries_and_keys_are_normalised_in_the_order_of_the_other_norms():
    for norm, kind in (("rmsnorm-llama", LlamaRMSNorm), ("rmsnorm", RMSNorm)):
        attention = small_model(norm=norm, qk_norm=True).layers[0].attn
        assert type(attention.q_norm) is type(attention.k_norm) is kind
