"""RMSNorm with a derived backward: it agrees with the reference, and what it saves."""

import norm_oracles as oracles
import numpy as np
import pytest
import torch
from norm_cases import D_MODEL, FAST, TOLERANCE, assert_close, gradients_of, random, to_numpy
from norm_claims import NormClaims, RMSNormClaims

from cs_basics.fast.add_rms_norm import add_rms_norm, add_rms_norm_unrounded
from cs_basics.fast.rms_norm import FusedLlamaRMSNorm, FusedRMSNorm, sum_rows
from cs_basics.norms import RMSNorm
from cs_basics.variants.norms import LlamaRMSNorm

TWINS = {RMSNorm: FusedRMSNorm, LlamaRMSNorm: FusedLlamaRMSNorm}
each_twin = pytest.mark.parametrize("kind", TWINS)
each_kind = pytest.mark.parametrize("kind", [RMSNorm, FusedRMSNorm])


class TestNorms(NormClaims):
    names = FAST


class TestRMSNorm(RMSNormClaims):
    kind = FusedRMSNorm


def results_and_gradients(norm, x, residual=None, add=add_rms_norm):
    """Return what the norm gives, and the gradients of x, residual and gain."""
    leaves = [a.clone().requires_grad_() for a in (x, residual) if a is not None]
    results = [norm(*leaves)] if residual is None else list(add(norm, *leaves))
    loss = sum((y * random(*y.shape, seed=5 + i)).sum() for i, y in enumerate(results))
    return results + list(torch.autograd.grad(loss, [*leaves, norm.weight]))


def with_gain(norm):
    norm.weight.data.uniform_(0.5, 2.0, generator=torch.Generator().manual_seed(9))
    return norm


@each_twin
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4, 1e12])
def test_the_function_agrees_with_the_reference(kind, adds, scale):
    x = (scale * random(6, D_MODEL)).float()
    residual = (scale * random(6, D_MODEL, seed=1)).float() if adds else None
    reference, by_hand = (
        results_and_gradients(with_gain(k(D_MODEL)), x, residual) for k in (kind, TWINS[kind])
    )
    for ours, expected in zip(by_hand, reference, strict=True):
        tolerance = float(2e-6 * expected.detach().abs().max())
        torch.testing.assert_close(ours, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("size", [1e16, 1e18])
def test_its_gradient_is_right_where_the_formula_differentiated_underflows(size):
    x, cotangent = (size * random(4, D_MODEL)).float(), 1e-8 * random(4, D_MODEL, seed=1)
    ours, exact = (
        gradients_of(FusedRMSNorm(D_MODEL), [x.to(to)], cotangent.to(to))[0]
        for to in (torch.float32, torch.float64)
    )
    assert_close(ours, to_numpy(exact), 2e-6)


@each_twin
def test_in_bfloat16_the_function_gives_the_bits_of_the_reference(kind):
    x = random(50, D_MODEL).bfloat16()
    reference, by_hand = (
        with_gain(k(D_MODEL, dtype=torch.bfloat16))(x) for k in (kind, TWINS[kind])
    )
    assert torch.equal(by_hand, reference)


@pytest.mark.parametrize(
    ("kind", "dtype", "bytes_per_coordinate"),
    [
        (RMSNorm, torch.bfloat16, 8),
        (RMSNorm, torch.float32, 8),
        (FusedRMSNorm, torch.bfloat16, 2),
        (FusedRMSNorm, torch.float32, 4),
    ],
)
def test_the_function_saves_the_input_and_a_number_per_vector(kind, dtype, bytes_per_coordinate):
    num_vectors, d_model = 64, 512
    saved = {}

    def keep(tensor):
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    norm, x = kind(d_model), random(num_vectors, d_model).to(dtype).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        y = norm(x)
    num_bytes = sum(saved.values()) - 4 * d_model  # The gain is there anyway.
    assert y.requires_grad
    numbers_per_vector = (num_bytes - bytes_per_coordinate * x.numel()) / (4 * num_vectors)
    assert numbers_per_vector == 1 if kind is FusedRMSNorm else 0 <= numbers_per_vector <= 6


def test_a_second_derivative_is_refused_instead_of_wrong():
    x = random(2, D_MODEL).float().requires_grad_()
    (grad,) = torch.autograd.grad(FusedRMSNorm(D_MODEL)(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


@each_kind
def test_an_empty_batch_gives_the_gain_a_gradient_of_zero(kind):
    *_, grad_x, grad_weight = results_and_gradients(kind(D_MODEL), torch.zeros(0, 3, D_MODEL))
    assert grad_x.shape == (0, 3, D_MODEL)
    assert torch.equal(grad_weight, torch.zeros(D_MODEL))


@each_kind
def test_gradients_that_are_not_contiguous_are_taken(kind):
    x, norm = random(4, D_MODEL).float().requires_grad_(), kind(D_MODEL)
    (expected,) = torch.autograd.grad(norm(x).sum(), x)
    broadcast = torch.ones(()).expand(4, D_MODEL)
    (grad,) = torch.autograd.grad(norm(x), x, broadcast)
    torch.testing.assert_close(grad, expected)


@each_kind
@pytest.mark.parametrize("residual_dtype", [torch.bfloat16, torch.float32], ids=str)
def test_add_rms_norm_returns_the_norm_of_the_sum_and_the_sum(kind, residual_dtype):
    x, residual = random(5, D_MODEL).bfloat16(), random(5, D_MODEL, seed=1).to(residual_dtype)
    normalised, new_residual = add_rms_norm(kind(D_MODEL), x, residual)
    assert new_residual.dtype == normalised.dtype == residual_dtype
    assert torch.equal(new_residual, x + residual)
    expected = oracles.rms_norm(to_numpy(x + residual), weight=np.ones(D_MODEL))
    assert_close(normalised, expected, TOLERANCE[residual_dtype])


@each_kind
@pytest.mark.parametrize("dtypes", [("bfloat16", "float32"), ("float32", "bfloat16")], ids=str)
def test_both_terms_of_add_rms_norm_get_their_gradient_in_their_dtype(kind, dtypes):
    x, residual = (random(3, D_MODEL, seed=i).to(getattr(torch, d)) for i, d in enumerate(dtypes))
    x.requires_grad_()
    residual.requires_grad_()
    normalised, new_residual = add_rms_norm(kind(D_MODEL), x, residual)
    (normalised.square().sum() + new_residual.sum()).backward()
    assert (x.grad.dtype, residual.grad.dtype) == (x.dtype, residual.dtype)
    tolerance = TOLERANCE[torch.bfloat16] * residual.grad.abs().max()
    torch.testing.assert_close(x.grad.float(), residual.grad.float(), rtol=0, atol=tolerance)


@pytest.mark.parametrize("kind", FAST)
def test_the_gradients_of_add_rms_norm_are_those_of_finite_differences(kind):
    norm = FAST[kind].build(dtype=torch.float64)

    def call(x, residual, weight):
        norm.weight = torch.nn.Parameter(weight.detach())
        return list(torch.func.functional_call(Add(norm), {"norm.weight": weight}, (x, residual)))

    arguments = [random(2, D_MODEL), random(2, D_MODEL, seed=1), 1.5 + random(D_MODEL, seed=2)]
    assert torch.autograd.gradcheck(call, [a.requires_grad_() for a in arguments])


class Add(torch.nn.Module):
    """A module whose forward is the residual add and norm of another."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x, residual):
        return add_rms_norm(self.norm, x, residual)


@each_kind
def test_an_unused_result_of_add_rms_norm_adds_no_gradient(kind):
    x = random(2, D_MODEL).float().requires_grad_()
    _, new_residual = add_rms_norm(kind(D_MODEL), x, torch.ones(2, D_MODEL))
    new_residual.sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x))


@each_kind
def test_add_rms_norm_rejects_a_residual_that_would_be_broadcast(kind):
    with pytest.raises(ValueError, match=r"residual of shape \(1, 24\) must be like x, \(2, 24\)"):
        add_rms_norm(kind(D_MODEL), torch.ones(2, D_MODEL), torch.ones(1, D_MODEL))


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore")  # PyTorch's own, of what it does to compile.
@pytest.mark.parametrize("function", [add_rms_norm, add_rms_norm_unrounded])
def test_traced_as_one_graph_the_results_are_the_same(function):
    norm = with_gain(FusedRMSNorm(D_MODEL))
    x, residual = random(6, D_MODEL).float(), random(6, D_MODEL, seed=1).float()
    expected = results_and_gradients(norm, x, residual, add=function)
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    found = results_and_gradients(norm, x, residual, add=compiled)
    for ours, theirs in zip(found, expected, strict=True):
        limit = 2e-6 * float(theirs.detach().abs().max())
        torch.testing.assert_close(ours, theirs, rtol=0, atol=limit)


@pytest.mark.parametrize("num_rows", [0, 1, 63, 64, 65, 128, 200])
def test_rows_summed_in_groups_are_all_rows(num_rows):
    rows = torch.arange(num_rows * 3, dtype=torch.float64).view(num_rows, 3)
    assert torch.equal(sum_rows(rows), rows.sum(dim=0))
