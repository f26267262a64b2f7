"""What each norm computes, in every float type and shape, against NumPy in float64."""

import norm_oracles as oracles
import numpy as np
import pytest
import torch
from norm_cases import (
    CASES,
    D_MODEL,
    TOLERANCE,
    assert_close,
    build,
    each_dtype,
    each_norm,
    inputs_for,
    to_numpy,
)

from cs_basics.fast.rms_norm import FusedRMSNorm, make_norm
from cs_basics.norms import GatedRMSNorm, GroupRMSNorm, LayerNorm, PartialRMSNorm, RMSNorm


@each_norm
@pytest.mark.parametrize("leading", [(), (1,), (5,), (2, 3), (2, 1, 3, 2), (0, 3)], ids=str)
def test_a_norm_does_in_every_shape_what_its_definition_says(name, leading):
    norm, inputs = build(name), inputs_for(name, leading)
    result = norm(*inputs)
    assert result.shape == (*leading, D_MODEL)
    assert_close(result, CASES[name].answer(norm, *inputs), 1e-14)


@each_norm
@each_dtype
@pytest.mark.parametrize("wide_parameters", [False, True])
def test_a_norm_keeps_the_dtype_and_rounds_only_its_result(name, dtype, wide_parameters):
    parameter_dtype = torch.promote_types(dtype, torch.float32) if wide_parameters else dtype
    norm, inputs = build(name, parameter_dtype), inputs_for(name, (50,), dtype)
    result = norm(*inputs)
    assert result.dtype == dtype
    assert_close(result, CASES[name].answer(norm, *inputs), TOLERANCE[dtype])


@each_norm
def test_a_norm_takes_inputs_that_are_not_contiguous(name):
    norm, inputs = build(name), inputs_for(name, (4, 3))
    strided = [x.transpose(0, 2).contiguous().transpose(0, 2) for x in inputs]
    assert not strided[0].is_contiguous()
    assert_close(norm(*strided), CASES[name].answer(norm, *inputs), 1e-14)


@each_norm
def test_a_norm_lives_on_the_device_that_it_is_given(name):
    norm = CASES[name].build(device="meta", dtype=torch.bfloat16)
    inputs = [x.to("meta") for x in inputs_for(name, (2,))]
    assert norm(*inputs).device.type == "meta"
    assert {p.dtype for p in norm.parameters()} == {torch.bfloat16}


@each_norm
def test_a_norm_leaves_its_inputs_as_they_are(name):
    inputs = inputs_for(name, (3,))
    build(name)(*inputs)
    for x, untouched in zip(inputs, inputs_for(name, (3,)), strict=True):
        assert torch.equal(x, untouched)


def test_the_root_mean_square_of_1_2_3_4_is_the_root_of_7_and_a_half():
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    ratio = x / RMSNorm(4, eps=0.0, dtype=torch.float64)(x)
    np.testing.assert_allclose(to_numpy(ratio), 7.5**0.5, rtol=1e-15)
    np.testing.assert_allclose(to_numpy(ratio), 2.7386, atol=5e-5)


@pytest.mark.parametrize(("low", "bits"), [(torch.bfloat16, 8), (torch.float16, 11)], ids=str)
def test_the_order_of_llama_rounds_twice_and_the_definition_once(low, bits):
    x = torch.randn(200, D_MODEL, generator=torch.Generator().manual_seed(0)).to(low)
    worst = {}
    for cast_before_gain in (False, True):
        norm = RMSNorm(D_MODEL, dtype=low, cast_before_gain=cast_before_gain)
        norm.weight.data.uniform_(0.5, 2.0, generator=torch.Generator().manual_seed(1))
        exact = oracles.rms_norm(to_numpy(x), weight=to_numpy(norm.weight))
        worst[cast_before_gain] = np.max(np.abs(to_numpy(norm(x)) / exact - 1))
    once = 2.0**-bits
    assert worst[False] < 1.001 * once
    assert 1.3 * once < worst[True] < 2.01 * once


def test_the_two_orders_agree_where_the_gain_is_a_power_of_two():
    x = torch.randn(50, D_MODEL, generator=torch.Generator().manual_seed(0)).bfloat16()
    norms = [RMSNorm(D_MODEL, cast_before_gain=order) for order in (False, True)]
    for norm in norms:
        norm.weight.data.fill_(0.5)
    assert torch.equal(norms[0](x), norms[1](x))


@pytest.mark.parametrize("kind", [RMSNorm, FusedRMSNorm])
@pytest.mark.parametrize("residual_dtype", [torch.bfloat16, torch.float32], ids=str)
def test_add_rms_norm_returns_the_norm_of_the_sum_and_the_sum(kind, residual_dtype):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, D_MODEL, generator=generator).bfloat16()
    residual = torch.randn(5, D_MODEL, generator=generator).to(residual_dtype)
    norm = kind(D_MODEL)
    normalised, new_residual = norm.add_rms_norm(x, residual)
    assert new_residual.dtype == normalised.dtype == residual_dtype
    assert torch.equal(new_residual, x + residual)
    expected = oracles.rms_norm(to_numpy(x + residual), weight=np.ones(D_MODEL))
    assert_close(normalised, expected, TOLERANCE[residual_dtype])


@pytest.mark.parametrize(
    ("fraction", "d_model", "num_measured"),
    [(0.0625, 512, 32), (1 / 8, 512, 64), (1.0, 7, 7), (0.0625, 8, 1), (0.3, 10, 3), (0.07, 100, 7),
     (0.5, 7, 4)],
)  # fmt: skip
def test_partial_rmsnorm_measures_its_fraction_rounded_up(fraction, d_model, num_measured):
    assert PartialRMSNorm(d_model, fraction=fraction).num_measured == num_measured


@pytest.mark.parametrize(
    ("kind", "type_", "printed"),
    [
        ("rmsnorm", RMSNorm, "cast_before_gain=False"),
        ("rmsnorm-llama", RMSNorm, "cast_before_gain=True"),
        ("rmsnorm-function", FusedRMSNorm, "cast_before_gain=False"),
        ("layernorm", LayerNorm, "bias=True"),
        ("layernorm-no-bias", LayerNorm, "bias=False"),
        ("partial-rmsnorm", PartialRMSNorm, "num_measured=4"),
        ("group-rmsnorm", GroupRMSNorm, "num_groups=2"),
    ],
)
def test_make_norm_builds_each_kind_with_its_choice(kind, type_, printed):
    norm = make_norm(kind, 8, dtype=torch.float16, fraction=0.5, num_groups=2)
    assert type(norm) is type_
    assert printed in repr(norm)
    assert norm.weight.dtype == torch.float16


def test_the_names_of_the_weights_are_weight_and_bias():
    assert list(LayerNorm(4).state_dict()) == ["weight", "bias"]
    for name in CASES.keys() - {"layernorm"}:
        assert list(CASES[name].build().state_dict()) == ["weight"]


@each_norm
@pytest.mark.parametrize("shape", [(), (1,), (D_MODEL, 1), (3, D_MODEL + 1), (D_MODEL, 3)], ids=str)
def test_a_norm_rejects_vectors_of_another_size(name, shape):
    inputs = [torch.ones(shape) for _ in inputs_for(name, ())]
    with pytest.raises(ValueError, match="must end in an axis of d_model=24"):
        build(name)(*inputs)


@pytest.mark.parametrize("kind", [RMSNorm, FusedRMSNorm])
def test_add_rms_norm_rejects_a_residual_that_would_be_broadcast(kind):
    with pytest.raises(ValueError, match=r"residual of shape \(1, 24\) must be like x, \(2, 24\)"):
        kind(D_MODEL).add_rms_norm(torch.ones(2, D_MODEL), torch.ones(1, D_MODEL))


def test_a_gate_of_another_shape_is_rejected():
    with pytest.raises(ValueError, match=r"gate of shape \(24,\) must be like x, \(2, 24\)"):
        GatedRMSNorm(D_MODEL)(torch.ones(2, D_MODEL), torch.ones(D_MODEL))


@each_norm
@pytest.mark.parametrize("eps", [-1e-5, float("nan")])
def test_an_eps_below_zero_is_rejected(name, eps):
    with pytest.raises(ValueError, match="must be 0 or greater"):
        CASES[name].build(eps=eps)


@pytest.mark.parametrize("fraction", [0.0, -0.5, 1.01, float("nan")])
def test_a_fraction_out_of_range_is_rejected(fraction):
    with pytest.raises(ValueError, match=r"fraction=.* must be above 0 and at most 1"):
        PartialRMSNorm(8, fraction=fraction)


@pytest.mark.parametrize("num_groups", [0, -2, 3, 16])
def test_groups_that_do_not_divide_the_vector_are_rejected(num_groups):
    with pytest.raises(ValueError, match="must be a divisor of d_model=8"):
        GroupRMSNorm(8, num_groups=num_groups)


def test_an_unknown_kind_is_rejected_with_the_known_ones():
    with pytest.raises(ValueError, match=r"norm='batchnorm' must be one of rmsnorm, .*layernorm"):
        make_norm("batchnorm", 8)
