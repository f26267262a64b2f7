"""Norms with a derived backward, alone and with the addition before: equal to the book's."""

import pytest
import torch

from cs_basics.norms import RMSNorm
from cs_basics.variants.norms import LlamaRMSNorm
from lab.norms.add_rms_norm import add_rms_norm, add_rms_norm_, add_rms_norm_unrounded
from lab.norms.rms_norm import FusedLlamaRMSNorm, FusedRMSNorm

TWINS = {RMSNorm: FusedRMSNorm, LlamaRMSNorm: FusedLlamaRMSNorm}
each_twin = pytest.mark.parametrize("kind", TWINS)


def built(kind):
    norm = kind(24, dtype=torch.float64)
    norm.weight.data.uniform_(0.5, 2.0, generator=torch.Generator().manual_seed(9))
    return norm


def tensors(count):
    return torch.randn(count, 6, 24, generator=torch.Generator().manual_seed(1)).double()


@each_twin
@pytest.mark.parametrize("adds", [False, True])
def test_values_and_gradients_are_those_of_the_formula(kind, adds):
    found = []
    for norm in (built(kind), built(TWINS[kind])):
        x, residual = tensors(2).requires_grad_()
        y, stream = add_rms_norm(norm, x, residual) if adds else (norm(x), residual)
        leaves = [x, residual, norm.weight]
        grads = torch.autograd.grad((y.sin() + stream.cos()).sum(), leaves, allow_unused=True)
        found.append([y, stream, *grads])
    torch.testing.assert_close(*found)


@each_twin
def test_the_three_forms_of_the_sum_agree_where_nothing_is_rounded(kind):
    x, residual = tensors(2)
    norm = built(TWINS[kind]).requires_grad_(False)
    expected = add_rms_norm(norm, x, residual)
    torch.testing.assert_close(add_rms_norm_unrounded(norm, x, residual), expected)
    torch.testing.assert_close(add_rms_norm_(norm, x, residual), expected)
    assert residual.equal(expected[1])


@pytest.mark.gpu
def test_the_kernels_agree_with_the_formula():
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    found = []
    for kind in (RMSNorm, FusedRMSNorm):
        x = tensors(1)[0].float().cuda().requires_grad_()
        y = kind(24, device=x.device)(x)
        found.append([y, *torch.autograd.grad(y.sin().sum(), x)])
    torch.testing.assert_close(*found)
