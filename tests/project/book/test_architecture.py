"""The choices inside the model: placement of norms, merged projections, tied weights."""

import itertools
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch
from torch import nn

from cs_basics.attention import CausalSelfAttention, MergedCausalSelfAttention
from cs_basics.functional import cross_entropy
from cs_basics.layers import MergedSwiGLU, SiLUFeedForward, SwiGLU
from cs_basics.rope import RotaryPositionalEmbedding
from cs_basics.run.config import LLAMA, PRESETS, Architecture, NormKind
from cs_basics.run.folder import build_model
from cs_basics.transformer import BLOCKS, TransformerBlock, TransformerLM

PLACEMENTS = sorted(BLOCKS)


def small_model(architecture: Architecture = LLAMA, seed: int = 0, **sizes) -> TransformerLM:
    torch.manual_seed(seed)
    sizes = {"d_model": 32, "num_layers": 3, "num_heads": 4, "d_ff": 48} | sizes
    model = TransformerLM(50, 16, **sizes, architecture=architecture)
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


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_block_normalises_where_its_placement_says(placement):
    torch.manual_seed(0)
    block = BLOCKS[placement](
        16, 2, 24, dtype=torch.float64, architecture=Architecture(placement=placement)
    )
    gains = {}
    for name, parameter in block.named_parameters():
        if name.startswith("ln"):
            nn.init.trunc_normal_(parameter, mean=1.0, std=0.3)
            gains[name.removesuffix(".weight")] = parameter.detach().numpy()
    x = np.random.default_rng(0).normal(size=(2, 5, 16))
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
        placement: "ln_final.weight" in small_model(Architecture(placement=placement)).state_dict()
        for placement in PLACEMENTS
    }
    assert has_final_norm == {"none": False, "post": False, "pre": True, "sandwich": True}


@pytest.mark.parametrize(
    ("norm", "placement"), [*itertools.product(get_args(NormKind), PLACEMENTS)]
)
def test_every_norm_trains_in_every_place(norm, placement):
    model = small_model(Architecture(norm=norm, placement=placement))
    logits = model(ids(2, 16))
    loss = cross_entropy(logits, ids(2, 16))
    loss.backward()
    assert torch.isfinite(loss)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize(
    "architecture",
    [
        Architecture(fuse_add_norm=True),
        Architecture(fuse_add_norm=True, norm="rmsnorm-llama"),
        Architecture(fuse_add_norm=True, norm="rmsnorm-function"),
        Architecture(merge_projections=True),
        Architecture(merge_projections=True, qk_norm=True, fuse_add_norm=True),
    ],
    ids=str,
)
def test_the_fused_and_the_merged_form_give_logits_and_gradients_of_the_plain_one(architecture):
    plain = small_model(replace(architecture, fuse_add_norm=False, merge_projections=False))
    other = small_model(architecture, seed=1)
    other.load_state_dict(plain.state_dict())
    tokens = ids(2, 16)
    logits, same_logits = plain(tokens), other(tokens)
    torch.testing.assert_close(same_logits, logits, rtol=0, atol=1e-5)
    cross_entropy(logits, ids(2, 16)).backward()
    cross_entropy(same_logits, ids(2, 16)).backward()
    torch.testing.assert_close(
        other.token_embeddings.weight.grad, plain.token_embeddings.weight.grad, rtol=0, atol=1e-5
    )
    torch.testing.assert_close(
        other.layers[0].ln2.weight.grad, plain.layers[0].ln2.weight.grad, rtol=0, atol=1e-5
    )


def test_merged_projections_save_and_load_the_state_dict_of_the_separate_ones():
    plain, merged = small_model(), small_model(Architecture(merge_projections=True), seed=1)
    saved = merged.state_dict()
    assert list(saved) != []
    assert set(saved) == set(plain.state_dict())
    plain.load_state_dict(saved)
    torch.testing.assert_close(plain(ids(1, 8)), merged(ids(1, 8)), rtol=0, atol=1e-5)
    again = small_model(Architecture(merge_projections=True), seed=2)
    again.load_state_dict(plain.state_dict())
    for (name, parameter), (_, same) in zip(
        merged.named_parameters(), again.named_parameters(), strict=True
    ):
        assert torch.equal(parameter, same), name


def test_a_missing_part_of_a_merged_projection_is_reported_by_name():
    state = small_model().state_dict()
    del state["layers.1.ffn.w3.weight"]
    with pytest.raises(RuntimeError, match=r"layers\.1\.ffn\.w13\.weight"):
        small_model(Architecture(merge_projections=True)).load_state_dict(state)


def test_merged_projections_start_from_the_distribution_of_the_separate_ones():
    torch.manual_seed(0)
    ffn = MergedSwiGLU(256, 688)
    attention = MergedCausalSelfAttention(256, 8)
    assert ffn.w13.weight.std().item() == pytest.approx((2 / (256 + 688)) ** 0.5, rel=0.03)
    assert attention.qkv_proj.weight.std().item() == pytest.approx((2 / 512) ** 0.5, rel=0.03)


def test_merged_layers_have_as_many_weights_as_the_separate_ones():
    def size(module: nn.Module) -> int:
        return sum(p.numel() for p in module.parameters())

    assert size(MergedSwiGLU(32, 48)) == size(SwiGLU(32, 48))
    assert size(MergedCausalSelfAttention(32, 4)) == size(CausalSelfAttention(32, 4))


def test_silu_with_four_times_d_model_is_as_large_as_swiglu_with_eight_thirds():
    plain = sum(p.numel() for p in SiLUFeedForward(48, 4 * 48).parameters())
    gated = sum(p.numel() for p in SwiGLU(48, 8 * 48 // 3).parameters())
    assert plain == gated


def test_silu_feed_forward_is_w2_of_silu_of_w1():
    torch.manual_seed(0)
    layer = SiLUFeedForward(8, 12, dtype=torch.float64)
    x = np.random.default_rng(0).normal(size=(3, 8))
    hidden = x @ layer.w1.weight.detach().numpy().T
    expected = hidden / (1 + np.exp(-hidden)) @ layer.w2.weight.detach().numpy().T
    np.testing.assert_allclose(part(layer, x), expected, rtol=1e-10)


def test_tied_weights_are_one_parameter_with_the_scale_of_the_head():
    model = small_model(Architecture(tie_embeddings=True))
    untied = small_model()
    assert model.token_embeddings.weight is model.lm_head.weight
    saved = sum(p.numel() for p in untied.parameters()) - sum(p.numel() for p in model.parameters())
    assert saved == 50 * 32
    large = TransformerLM(500, 16, 64, 1, 4, 64, architecture=Architecture(tie_embeddings=True))
    assert large(ids(4, 16)).std() < 3


def test_without_positions_the_order_of_earlier_tokens_is_invisible():
    tokens = torch.tensor([[1, 2, 3, 4]])
    swapped = torch.tensor([[2, 1, 3, 4]])
    # One layer: in two the causal mask alone gives order away.
    bag = small_model(Architecture(positions="none"), num_layers=1)
    rope = small_model(num_layers=1)
    torch.testing.assert_close(bag(tokens)[0, -1], bag(swapped)[0, -1], rtol=0, atol=1e-5)
    assert not torch.allclose(rope(tokens)[0, -1], rope(swapped)[0, -1], atol=1e-3)


def test_qk_norm_normalises_every_head_before_the_rotation():
    torch.manual_seed(0)
    rope = RotaryPositionalEmbedding(10_000.0, 8, 16)
    attention = CausalSelfAttention(32, 4, rope, qk_norm=True)
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
    "architecture",
    [
        Architecture(fuse_add_norm=True),
        Architecture(merge_projections=True),
        Architecture(qk_norm=True),
        Architecture(placement="post"),
        Architecture(placement="sandwich"),
    ],
    ids=str,
)
def test_cached_decoding_agrees_with_the_whole_sequence(architecture):
    model = small_model(architecture)
    tokens = ids(2, 10)
    caches = model.empty_caches(2)
    steps = [model(tokens[:, i : i + 1], caches) for i in range(10)]
    torch.testing.assert_close(torch.cat(steps, dim=1), model(tokens), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"fuse_add_norm": True, "placement": "post"}, "fuse_add_norm needs placement=pre"),
        ({"fuse_add_norm": True, "norm": "layernorm"}, "norm=layernorm"),
        ({"norm_fraction": 0.0}, "norm_fraction=0.0"),
        ({"norm_groups": 0}, "norm_groups=0"),
    ],
)
def test_choices_that_do_not_fit_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Architecture(**wrong)


def test_groups_that_do_not_divide_the_width_are_refused_before_training():
    with pytest.raises(ValueError, match="d_model=64 is not divisible by norm_groups=7"):
        replace(PRESETS["debug"][1], norm="group-rmsnorm", norm_groups=7)


def test_a_run_is_built_with_the_architecture_of_its_configuration():
    config = replace(PRESETS["debug"][1], placement="sandwich", norm="layernorm", ffn="silu")
    model = build_model(config)
    assert "layers.0.ln1_after.bias" in model.state_dict()
    assert isinstance(model.layers[0].ffn, SiLUFeedForward)
    assert type(build_model(PRESETS["debug"][1]).layers[0]) is TransformerBlock
