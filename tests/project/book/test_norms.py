"""RMSNorm and LayerNorm against NumPy in float64, and what holds without knowing their results."""

import pytest
import torch
from norm_cases import BOOK, D_MODEL, random
from norm_claims import NormClaims, RMSNormClaims

from cs_basics.norms import LayerNorm, RMSNorm


class TestNorms(NormClaims):
    names = BOOK


class TestRMSNorm(RMSNormClaims):
    kind = RMSNorm


def test_layernorm_is_scale_invariant():
    norm, x = LayerNorm(D_MODEL, eps=0.0), random(5, D_MODEL)
    torch.testing.assert_close(norm(100 * x), norm(x), rtol=1e-12, atol=1e-12)


def test_layernorm_is_shift_invariant_and_rmsnorm_is_not():
    layernorm, rmsnorm, x = LayerNorm(D_MODEL), RMSNorm(D_MODEL), random(5, D_MODEL)
    torch.testing.assert_close(layernorm(x + 3), layernorm(x), rtol=1e-13, atol=1e-13)
    assert (rmsnorm(x + 3) - rmsnorm(x)).abs().max() > 0.5


def test_layernorm_without_bias_is_rmsnorm_where_the_mean_is_zero():
    x = random(5, D_MODEL)
    centred = x - x.mean(dim=-1, keepdim=True)
    layernorm, rmsnorm = LayerNorm(D_MODEL, bias=False), RMSNorm(D_MODEL)
    torch.testing.assert_close(layernorm(centred), rmsnorm(centred), rtol=1e-13, atol=1e-13)
    assert (layernorm(x) - rmsnorm(x)).abs().max() > 0.1


def test_layernorm_gives_mean_0_and_variance_1():
    result = LayerNorm(D_MODEL, eps=0.0)(5 + 3 * random(5, D_MODEL))
    one = torch.ones(5, dtype=torch.float64)
    torch.testing.assert_close(result.mean(dim=-1), 0 * one, rtol=0, atol=1e-14)
    torch.testing.assert_close(result.var(dim=-1, correction=0), one, rtol=1e-13, atol=0)


@pytest.mark.parametrize("kind", [RMSNorm, LayerNorm])
def test_the_printed_norm_names_its_sizes(kind):
    assert "d_model=24, eps=0.5" in repr(kind(24, eps=0.5))
