"""What holds for a norm without knowing its results: what it ignores, and what it fixes."""

import pytest
import torch
from norm_cases import D_MODEL, build, each_norm, inputs_for

from cs_basics.fast.rms_norm import FusedRMSNorm
from cs_basics.norms import GatedRMSNorm, GroupRMSNorm, LayerNorm, PartialRMSNorm, RMSNorm

both_versions = pytest.mark.parametrize("kind", [RMSNorm, FusedRMSNorm])


@pytest.fixture
def x():
    return torch.randn(5, D_MODEL, generator=torch.Generator().manual_seed(0)).double()


def root_mean_square(x):
    return x.square().mean(dim=-1).sqrt()


@both_versions
@pytest.mark.parametrize("factor", [1e-6, 0.3, 1e6])
def test_rmsnorm_is_scale_invariant(kind, x, factor):
    norm = kind(D_MODEL, eps=0.0)
    torch.testing.assert_close(norm(factor * x), norm(x), rtol=1e-13, atol=1e-13)


@both_versions
def test_rmsnorm_turns_with_the_sign(kind, x):
    norm = kind(D_MODEL)
    assert torch.equal(norm(-x), -norm(x))


@pytest.mark.parametrize("kind", [PartialRMSNorm, LayerNorm])
def test_the_relatives_are_scale_invariant(kind, x):
    norm = kind(D_MODEL, eps=0.0)
    torch.testing.assert_close(norm(100 * x), norm(x), rtol=1e-12, atol=1e-12)


def test_group_rmsnorm_does_not_see_the_scale_of_a_single_group(x):
    norm, scaled = GroupRMSNorm(D_MODEL, eps=0.0, num_groups=4), x.clone()
    scaled[:, 6:12] *= 1000
    torch.testing.assert_close(norm(scaled), norm(x), rtol=1e-13, atol=1e-13)
    assert (RMSNorm(D_MODEL)(scaled) - RMSNorm(D_MODEL)(x)).abs().max() > 0.5


def test_layernorm_is_shift_invariant_and_rmsnorm_is_not(x):
    layernorm, rmsnorm = LayerNorm(D_MODEL), RMSNorm(D_MODEL)
    torch.testing.assert_close(layernorm(x + 3), layernorm(x), rtol=1e-13, atol=1e-13)
    assert (rmsnorm(x + 3) - rmsnorm(x)).abs().max() > 0.5


def test_layernorm_without_bias_is_rmsnorm_where_the_mean_is_zero(x):
    centred = x - x.mean(dim=-1, keepdim=True)
    layernorm, rmsnorm = LayerNorm(D_MODEL, bias=False), RMSNorm(D_MODEL)
    torch.testing.assert_close(layernorm(centred), rmsnorm(centred), rtol=1e-13, atol=1e-13)
    assert (layernorm(x) - rmsnorm(x)).abs().max() > 0.1


def test_partial_rmsnorm_of_everything_and_group_rmsnorm_of_one_group_are_rmsnorm(x):
    expected = RMSNorm(D_MODEL)(x)
    assert torch.equal(PartialRMSNorm(D_MODEL, fraction=1.0)(x), expected)
    assert torch.equal(GroupRMSNorm(D_MODEL, num_groups=1)(x), expected)


def test_partial_rmsnorm_ignores_the_rest_when_it_measures(x):
    norm, changed = PartialRMSNorm(D_MODEL, fraction=0.25), x.clone()
    changed[:, 6:] = 1e6
    torch.testing.assert_close(norm(changed)[:, :6], norm(x)[:, :6], rtol=0, atol=0)


@pytest.mark.parametrize("gate_first", [False, True])
def test_a_closed_gate_lets_nothing_through(x, gate_first):
    gate = torch.where(torch.arange(D_MODEL) < 6, -1e9, 1.0).double().expand_as(x)
    result = GatedRMSNorm(D_MODEL, gate_first=gate_first)(x, gate)
    assert not result[:, :6].any()
    assert result[:, 6:].all()


def test_only_a_gate_behind_the_norm_changes_the_size_of_the_result(x):
    gate = torch.full_like(x, 3.0)
    first, last = (GatedRMSNorm(D_MODEL, gate_first=order)(x, gate) for order in (True, False))
    one = torch.ones(5, dtype=torch.float64)
    torch.testing.assert_close(root_mean_square(first), one, rtol=1e-4, atol=0)
    torch.testing.assert_close(root_mean_square(last), 2.8577 * one, rtol=1e-4, atol=0)


@each_norm
def test_each_token_is_normalised_alone(name):
    norm, inputs = build(name), inputs_for(name, (4, 3))
    result = norm(*inputs)
    for index in [(0, 0), (2, 1), (3, 2)]:
        alone = norm(*(x[index] for x in inputs))
        torch.testing.assert_close(result[index], alone, rtol=1e-14, atol=1e-14)
    for x in inputs:
        x[2, 1] = float("nan")
    changed = norm(*inputs).isnan().all(dim=-1)
    assert changed.sum() == 1
    assert changed[2, 1]


@both_versions
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_result_has_root_mean_square_1_where_the_gain_is_1(kind, x, dtype):
    result = root_mean_square(kind(D_MODEL, eps=0.0)(x.to(dtype)))
    torch.testing.assert_close(result, torch.ones(5, dtype=dtype), rtol=1e-6, atol=0)


def test_layernorm_gives_mean_0_and_variance_1(x):
    result = LayerNorm(D_MODEL, eps=0.0)(5 + 3 * x)
    one = torch.ones(5, dtype=torch.float64)
    torch.testing.assert_close(result.mean(dim=-1), 0 * one, rtol=0, atol=1e-14)
    torch.testing.assert_close(result.var(dim=-1, correction=0), one, rtol=1e-13, atol=0)


@both_versions
@pytest.mark.parametrize("eps", [1e-2, 1e-5, 1e-8])
def test_eps_stands_inside_the_root(kind, x, eps):
    # Where mean square = eps, the result has root mean square sqrt(eps / (eps + eps)). Outside the
    # root the same eps is far smaller than the root mean square, sqrt(eps), and would hardly count.
    x = x / root_mean_square(x)[:, None] * eps**0.5
    result = root_mean_square(kind(D_MODEL, eps=eps)(x))
    inside, outside = 0.5**0.5, 1 / (1 + eps**0.5)
    torch.testing.assert_close(result, torch.full_like(result, inside), rtol=1e-12, atol=0)
    assert (result - outside).abs().min() > 0.2


@both_versions
def test_eps_limits_how_much_a_small_vector_grows(kind, x):
    norm = kind(D_MODEL, eps=1e-4)
    torch.testing.assert_close(norm(1e-9 * x), 1e-7 * x, rtol=1e-9, atol=0)
    torch.testing.assert_close(norm(1e9 * x), kind(D_MODEL, eps=0.0)(x), rtol=1e-12, atol=0)
