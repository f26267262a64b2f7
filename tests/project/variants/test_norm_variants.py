"""The relatives of RMSNorm against NumPy in float64, and how they differ from it."""

import norm_oracles as oracles
import numpy as np
import pytest
import torch
from norm_cases import D_MODEL, VARIANTS, build, gradients_of, random, to_numpy
from norm_claims import NormClaims, root_mean_square

from cs_basics.norms import LayerNorm, RMSNorm
from cs_basics.run.model_config import ModelConfig
from cs_basics.variants.model import make_norm
from cs_basics.variants.norms import (
    GatedRMSNorm,
    GemmaRMSNorm,
    GroupRMSNorm,
    LlamaRMSNorm,
    PartialRMSNorm,
)


class TestNorms(NormClaims):
    names = VARIANTS


def test_gemmas_norm_starts_as_rmsnorm_with_weights_of_zero():
    norm, x = GemmaRMSNorm(D_MODEL), random(5, D_MODEL).float()
    assert not norm.weight.any()
    assert torch.equal(norm(x), RMSNorm(D_MODEL)(x))


@pytest.mark.parametrize(("low", "bits"), [(torch.bfloat16, 8), (torch.float16, 11)], ids=str)
def test_the_order_of_llama_rounds_twice_and_the_definition_once(low, bits):
    x = random(200, D_MODEL).to(low)
    worst = {}
    for kind in (RMSNorm, LlamaRMSNorm):
        norm = kind(D_MODEL, dtype=low)
        norm.weight.data.uniform_(0.5, 2.0, generator=torch.Generator().manual_seed(1))
        exact = oracles.rms_norm(to_numpy(x), weight=to_numpy(norm.weight))
        worst[kind] = np.max(np.abs(to_numpy(norm(x)) / exact - 1))
    once = 2.0**-bits
    assert worst[RMSNorm] < 1.001 * once
    assert 1.3 * once < worst[LlamaRMSNorm] < 2.01 * once


def test_the_two_orders_agree_where_the_gain_is_a_power_of_two():
    x, norms = random(50, D_MODEL).bfloat16(), [RMSNorm(D_MODEL), LlamaRMSNorm(D_MODEL)]
    for norm in norms:
        norm.weight.data.fill_(0.5)
    assert torch.equal(norms[0](x), norms[1](x))


def test_partial_rmsnorm_is_scale_invariant():
    norm, x = PartialRMSNorm(D_MODEL, eps=0.0), random(5, D_MODEL)
    torch.testing.assert_close(norm(100 * x), norm(x), rtol=1e-12, atol=1e-12)


def test_partial_rmsnorm_ignores_the_rest_when_it_measures():
    norm, x = PartialRMSNorm(D_MODEL, fraction=0.25), random(5, D_MODEL)
    changed = x.clone()
    changed[:, 6:] = 1e6
    assert torch.equal(norm(changed)[:, :6], norm(x)[:, :6])


def test_partial_rmsnorm_passes_the_coordinates_that_it_does_not_measure_straight_through():
    norm, x = build("partial"), random(D_MODEL)
    cotangent = random(D_MODEL, seed=1)
    grad_x, _ = gradients_of(norm, [x], cotangent)
    root = to_numpy(x)[0] / oracles.rms_norm(to_numpy(x)[:2], weight=1.0)[0]
    expected = to_numpy(cotangent * norm.weight)[2:] / root
    np.testing.assert_allclose(to_numpy(grad_x)[2:], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("fraction", "d_model", "num_measured"),
    [(0.0625, 512, 32), (1 / 8, 512, 64), (1.0, 7, 7), (0.0625, 8, 1), (0.3, 10, 3), (0.07, 100, 7),
     (0.5, 7, 4)],
)  # fmt: skip
def test_partial_rmsnorm_measures_its_fraction_rounded_up(fraction, d_model, num_measured):
    assert PartialRMSNorm(d_model, fraction=fraction).num_measured == num_measured


def test_group_rmsnorm_does_not_see_the_scale_of_a_single_group():
    norm, x = GroupRMSNorm(D_MODEL, eps=0.0, num_groups=4), random(5, D_MODEL)
    scaled = x.clone()
    scaled[:, 6:12] *= 1000
    torch.testing.assert_close(norm(scaled), norm(x), rtol=1e-13, atol=1e-13)
    assert (RMSNorm(D_MODEL)(scaled) - RMSNorm(D_MODEL)(x)).abs().max() > 0.5


def test_partial_rmsnorm_of_everything_and_group_rmsnorm_of_one_group_are_rmsnorm():
    x = random(5, D_MODEL)
    expected = RMSNorm(D_MODEL)(x)
    assert torch.equal(PartialRMSNorm(D_MODEL, fraction=1.0)(x), expected)
    assert torch.equal(GroupRMSNorm(D_MODEL, num_groups=1)(x), expected)


@pytest.mark.parametrize("gate_first", [False, True])
def test_a_closed_gate_lets_nothing_through(gate_first):
    gate = torch.where(torch.arange(D_MODEL) < 6, -1e9, 1.0).double().expand(5, -1)
    result = GatedRMSNorm(D_MODEL, gate_first=gate_first)(random(5, D_MODEL), gate)
    assert not result[:, :6].any()
    assert result[:, 6:].all()


def test_only_a_gate_behind_the_norm_changes_the_size_of_the_result():
    x = random(5, D_MODEL)
    gate = torch.full_like(x, 3.0)
    first, last = (GatedRMSNorm(D_MODEL, gate_first=order)(x, gate) for order in (True, False))
    one = torch.ones(5, dtype=torch.float64)
    torch.testing.assert_close(root_mean_square(first), one, rtol=1e-4, atol=0)
    torch.testing.assert_close(root_mean_square(last), 2.8577 * one, rtol=1e-4, atol=0)


def test_a_gate_of_another_shape_is_rejected():
    with pytest.raises(ValueError, match=r"gate of shape \(24,\) must be like x, \(2, 24\)"):
        GatedRMSNorm(D_MODEL)(torch.ones(2, D_MODEL), torch.ones(D_MODEL))


@pytest.mark.parametrize(
    ("kind", "type_", "printed"),
    [
        ("rmsnorm", RMSNorm, "d_model=32, eps=0.25"),
        ("rmsnorm-llama", LlamaRMSNorm, "d_model=32, eps=0.25"),
        ("layernorm", LayerNorm, "bias=True"),
        ("layernorm-no-bias", LayerNorm, "bias=False"),
        ("partial-rmsnorm", PartialRMSNorm, "num_measured=2"),
        ("group-rmsnorm", GroupRMSNorm, "num_groups=8"),
        ("rmsnorm-gemma", GemmaRMSNorm, "d_model=32, eps=0.25"),
    ],
)
def test_make_norm_builds_each_kind_with_its_choice(kind, type_, printed):
    config = ModelConfig(d_model=32, num_heads=2, norm=kind, norm_eps=0.25)
    norm = make_norm(config, dtype=torch.float16)
    assert type(norm) is type_
    assert printed in repr(norm)
    assert getattr(norm, "eps", 0.25) == 0.25
    assert norm.weight.dtype == torch.float16


def test_an_unknown_kind_is_rejected():
    with pytest.raises(ValueError, match="norm='batchnorm' is unknown"):
        make_norm(ModelConfig(norm="batchnorm"))


@pytest.mark.parametrize("fraction", [0.0, -0.5, 1.01, float("nan")])
def test_a_fraction_out_of_range_is_rejected(fraction):
    with pytest.raises(ValueError, match=r"fraction=.* must be above 0 and at most 1"):
        PartialRMSNorm(8, fraction=fraction)


@pytest.mark.parametrize("num_groups", [0, -2, 3, 16])
def test_groups_that_do_not_divide_the_vector_are_rejected(num_groups):
    with pytest.raises(ValueError, match="must be a divisor of d_model=8"):
        GroupRMSNorm(8, num_groups=num_groups)
