"""One part of the model exchanged: placements, feed-forward part, positions, QK-norm, tying."""

import dataclasses
import itertools
import math
from typing import get_args

import numpy as np
import pytest
import torch
from torch import nn

from cs_basics.functional import cross_entropy
from cs_basics.layers import SwiGLU
from cs_basics.norms import RMSNorm
from cs_basics.rope import RotaryPositionalEmbedding
from cs_basics.run.model_config import ModelConfig, NormKind
from cs_basics.transformer import TransformerLM
from cs_basics.variants.attention import GroupedQueryAttention
from cs_basics.variants.feed_forward import ACTIVATIONS, FeedForward
from cs_basics.variants.model import BLOCKS, Transformer
from cs_basics.variants.norms import LlamaRMSNorm

SIZES = {
    "vocab_size": 50, "context_length": 16, "d_model": 32, "num_layers": 3, "num_heads": 4,
    "d_ff": 48,
}  # fmt: skip


def small_model(dtype=None, **choices) -> TransformerLM:
    torch.manual_seed(0)
    model = Transformer(ModelConfig(**{**SIZES, **choices}), dtype=dtype)
    for name, parameter in model.named_parameters():
        if "ln" in name or "norm" in name:  # gains of 1 would hide one that is left out
            nn.init.trunc_normal_(parameter, mean=1.0, std=0.3)
    return model


def ids(*shape: int) -> torch.Tensor:
    return torch.randint(50, shape, generator=torch.Generator().manual_seed(1))


def rms_normalised(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-5) * gain


def part(module: nn.Module, x: np.ndarray) -> np.ndarray:
    return module(torch.from_numpy(x)).detach().numpy()


def test_the_defaults_are_the_model_of_the_book_and_nothing_else():
    torch.manual_seed(7)
    built = Transformer(ModelConfig(**SIZES))
    torch.manual_seed(7)
    direct = TransformerLM(**SIZES)
    assert [type(m).forward for m in built.modules()] == [type(m).forward for m in direct.modules()]
    assert built.state_dict().keys() == direct.state_dict().keys()
    for name, value in direct.state_dict().items():
        assert torch.equal(built.state_dict()[name], value), name
    assert torch.equal(built(ids(2, 16)), direct(ids(2, 16)))


def test_the_defaults_are_those_of_the_signature():
    defaults = ModelConfig()
    sizes = {name: getattr(defaults, name) for name in SIZES} | {"num_layers": 1}
    model = TransformerLM(**sizes)
    built = Transformer(dataclasses.replace(defaults, num_layers=1))
    for module in (model, built):
        assert module.layers[0].attn.rope.theta == defaults.rope_theta
        assert module.ln_final.eps == defaults.norm_eps


@pytest.mark.parametrize("placement", BLOCKS)
def test_block_normalises_where_its_placement_says(placement):
    block = small_model(torch.float64, placement=placement).layers[0]
    gains = {
        name.removesuffix(".weight"): parameter.detach().numpy()
        for name, parameter in block.named_parameters()
        if name.startswith("ln")
    }
    x = np.random.default_rng(0).normal(size=(2, 5, 32))
    got = part(block, x)

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        return rms_normalised(x, gains[name])

    if placement == "pre":
        x = x + part(block.attn, norm(x, "ln1"))
        expected = x + part(block.ffn, norm(x, "ln2"))
    elif placement == "post":
        x = norm(x + part(block.attn, x), "ln1")
        expected = norm(x + part(block.ffn, x), "ln2")
    elif placement == "sandwich":
        x = x + norm(part(block.attn, norm(x, "ln1")), "ln1_after")
        expected = x + norm(part(block.ffn, norm(x, "ln2")), "ln2_after")
    else:
        assert gains == {}
        x = x + part(block.attn, x)
        expected = x + part(block.ffn, x)
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)


def test_only_models_that_end_unnormalised_have_a_final_norm():
    has_final_norm = {
        placement: "ln_final.weight" in small_model(placement=placement).state_dict()
        for placement in BLOCKS
    }
    assert has_final_norm == {"none": False, "post": False, "pre": True, "sandwich": True}


@pytest.mark.parametrize(("norm", "placement"), [*itertools.product(get_args(NormKind), BLOCKS)])
def test_every_norm_trains_in_every_place(norm, placement):
    model = small_model(norm=norm, placement=placement)
    loss = cross_entropy(model(ids(2, 16)), ids(2, 16))
    loss.backward()
    assert torch.isfinite(loss)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize(
    "choices",
    [{"num_kv_heads": 2}, {"qk_norm": True}, {"num_heads": 3, "head_dim": 12}, {"ffn": "silu"},
     {"ffn": "relu"}, {"ffn": "gelu"}, {"ffn": "relu-squared"},
     {"tie_embeddings": True}, {"positions": "none"},
     {"num_kv_heads": 1, "qk_norm": True, "positions": "none"}],
    ids=str,
)  # fmt: skip
def test_every_other_choice_learns(choices):
    model, optimizer_lr = small_model(**choices), 0.5
    losses = []
    for _ in range(5):
        loss = cross_entropy(model(ids(2, 16)), ids(2, 16).roll(-1, 1))
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter -= optimizer_lr * gradient
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.4


def test_the_norms_use_the_eps_of_the_configuration():
    model = small_model(norm_eps=0.25, placement="sandwich", qk_norm=True)
    block = model.layers[1]
    norms = (model.ln_final, block.ln1, block.ln2, block.ln1_after, block.ln2_after,
             block.attn.q_norm, block.attn.k_norm)  # fmt: skip
    assert {norm.eps for norm in norms} == {0.25}


def test_silu_with_four_times_d_model_is_as_large_as_swiglu_with_eight_thirds():
    plain = sum(p.numel() for p in FeedForward(48, 4 * 48, activation="silu").parameters())
    gated = sum(p.numel() for p in SwiGLU(48, 8 * 48 // 3).parameters())
    assert plain == gated


FORMULAS = {
    "silu": lambda x: x / (1 + math.exp(-x)),
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2)),
    "relu-squared": lambda x: max(x, 0.0) ** 2,
}


def give_numbers(module: nn.Module) -> None:
    """Give every weight and bias a value of its own; a bias of 0 would hide that it is left out."""
    for parameter in module.parameters():
        nn.init.trunc_normal_(parameter, std=0.5)


def weights_of(layer: nn.Module) -> dict[str, np.ndarray]:
    return {name: p.detach().numpy() for name, p in layer.named_parameters()}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_feed_forward_part_without_a_gate_is_w2_of_the_activation_of_w1(activation):
    torch.manual_seed(0)
    layer = FeedForward(8, 12, dtype=torch.float64, activation=activation)
    give_numbers(layer)
    w = weights_of(layer)
    x = np.random.default_rng(0).normal(size=(3, 8))
    hidden = np.vectorize(FORMULAS[activation])(x @ w["w1.weight"].T)
    expected = hidden @ w["w2.weight"].T
    np.testing.assert_allclose(part(layer, x), expected, rtol=1e-10)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_hide_nothing_that_is_not_finite_and_have_their_slopes(activation):
    function = ACTIVATIONS[activation]
    assert function(torch.tensor([math.nan])).isnan().all()
    x = torch.tensor([-2.0, -0.3, 0.4, 3.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(function, x)


def test_tied_weights_are_one_parameter_with_the_scale_of_the_head():
    model, untied = small_model(tie_embeddings=True), small_model()
    assert model.token_embeddings.weight is model.lm_head.weight
    saved = sum(p.numel() for p in untied.parameters()) - sum(p.numel() for p in model.parameters())
    assert saved == 50 * 32
    large = small_model(tie_embeddings=True, vocab_size=500, d_model=64, num_layers=1, d_ff=64)
    assert large(ids(4, 16)).std() < 3


def test_without_positions_the_order_of_earlier_tokens_is_invisible():
    tokens = torch.tensor([[1, 2, 3, 4]])
    swapped = torch.tensor([[2, 1, 3, 4]])
    # One layer: in two the causal mask alone gives order away.
    bag, rope = small_model(positions="none", num_layers=1), small_model(num_layers=1)
    torch.testing.assert_close(bag(tokens)[0, -1], bag(swapped)[0, -1], rtol=0, atol=1e-5)
    assert not torch.allclose(rope(tokens)[0, -1], rope(swapped)[0, -1], atol=1e-3)


def test_qk_norm_normalises_every_head_before_the_rotation():
    torch.manual_seed(0)
    rope = RotaryPositionalEmbedding(10_000.0, 8, 16)
    attention = GroupedQueryAttention(32, 4, rope, qk_norm=True)
    nn.init.trunc_normal_(attention.q_norm.weight, mean=1.0, std=0.3)
    nn.init.trunc_normal_(attention.k_norm.weight, mean=1.0, std=0.3)
    x = torch.randn(1, 6, 32)
    scaled = {
        name: value * (100.0 if name.startswith(("q_proj", "k_proj")) else 1.0)
        for name, value in attention.state_dict().items()
    }
    before = attention(x)
    attention.load_state_dict(scaled)
    torch.testing.assert_close(attention(x), before, rtol=1e-3, atol=1e-3)

    # By hand: the scores of the last position of head 2.
    q, k, v = (
        (x[0] @ weight.T).view(6, 4, 8)[:, 2].detach().double().numpy()
        for weight in (attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight)
    )
    q = rms_normalised(q, attention.q_norm.weight.detach().double().numpy())
    k = rms_normalised(k, attention.k_norm.weight.detach().double().numpy())
    turn = np.arange(6)[:, None] / 10_000.0 ** (np.arange(0, 8, 2) / 8)
    q, k = ((z[:, ::2] + 1j * z[:, 1::2]) * np.exp(1j * turn) for z in (q, k))
    scores = (q[-1] * k.conj()).real.sum(axis=-1) / np.sqrt(8)
    weights = np.exp(scores) / np.exp(scores).sum()
    captured = {}
    attention.output_proj.register_forward_pre_hook(
        lambda _, inputs: captured.update(heads=inputs[0])
    )
    attention(x)
    got = captured["heads"][0, -1].view(4, 8)[2].detach().numpy()
    np.testing.assert_allclose(got, weights @ v, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"norm": "group-rmsnorm", "d_model": 60, "num_heads": 6}, "d_model=60 is not divisible"),
        ({"ffn": "tanh"}, "ffn='tanh' is unknown: choose one of swiglu, silu, "),
        ({"positions": "alibi"}, "positions='alibi' is unknown: choose one of rope, none"),
        ({"norm_eps": -1}, "norm_eps=-1 must be 0 or greater"),
        ({"num_kv_heads": 3}, "num_kv_heads=3 must be a divisor of num_heads=16"),
        ({"num_heads": 512}, "heads of odd size 1: choose"),
        ({"head_dim": 0}, "head_dim=0 must be at least 1"),
        ({"head_dim": 7}, "head_dim=7 is odd"),
        ({"vocab_size": 0}, "vocab_size=0 must be at least 1"),
        ({"context_length": 1 << 21}, "context_length=2097152 must be at most 1048576"),
        ({"rope_theta": 0.0}, "rope_theta=0.0 must be greater than 0"),
    ],
)
def test_choices_that_do_not_fit_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        ModelConfig(**wrong)


def test_queries_and_keys_are_normalised_in_the_order_of_the_other_norms():
    for norm, kind in (("rmsnorm-llama", LlamaRMSNorm), ("rmsnorm", RMSNorm)):
        attention = small_model(norm=norm, qk_norm=True).layers[0].attn
        assert type(attention.q_norm) is type(attention.k_norm) is kind


def test_blocks_with_heads_of_another_size_share_one_table_of_angles():
    model = small_model(head_dim=6, num_heads=5)
    (rope,) = {block.attn.rope for block in model.layers}
    assert (rope.d_head, model.layers[0].attn.d_head) == (6, 6)
    assert small_model(head_dim=7, positions="none").layers[2].attn.rope is None


def test_a_model_is_built_with_all_the_choices_of_its_configuration():
    model = small_model(placement="sandwich", norm="layernorm", ffn="silu", num_kv_heads=2)
    assert "layers.0.ln1_after.bias" in model.state_dict()
    assert type(model.layers[2]) is BLOCKS["sandwich"]
    assert type(model.layers[1].ffn) is FeedForward
    assert type(model.layers[0].attn) is GroupedQueryAttention
