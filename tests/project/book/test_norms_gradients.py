"""The gradients of the norms, against finite differences of theirs and of the oracles."""

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
from norm_oracles import rms_norm, slope

from cs_basics.fast.rms_norm import FusedRMSNorm
from cs_basics.norms import RMSNorm

both_versions = pytest.mark.parametrize("kind", [RMSNorm, FusedRMSNorm])


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double()


def gradients_of(norm, inputs, cotangent):
    """Return the gradients of sum(norm(inputs) * cotangent) for inputs, then parameters."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    return torch.autograd.grad(norm(*inputs), [*inputs, *norm.parameters()], cotangent)


@each_norm
@pytest.mark.parametrize("leading", [(), (3,), (2, 2)], ids=str)
def test_the_gradients_are_those_of_finite_differences(name, leading):
    norm, inputs = build(name), inputs_for(name, leading)
    names = [parameter for parameter, _ in norm.named_parameters()]

    def call(*arguments):
        parameters = dict(zip(names, arguments[len(inputs) :], strict=True))
        return torch.func.functional_call(norm, parameters, arguments[: len(inputs)])

    arguments = [*inputs, *(p.detach().clone() for p in norm.parameters())]
    assert torch.autograd.gradcheck(call, [a.requires_grad_() for a in arguments])


@each_norm
def test_the_gradients_are_the_slopes_of_the_oracle(name):
    norm, inputs = build(name), inputs_for(name, (2,))
    cotangent = random(2, D_MODEL, seed=1)
    arrays = [to_numpy(x) for x in inputs]
    parameters = {key: to_numpy(value) for key, value in norm.named_parameters()}
    oracle, options = CASES[name].oracle, CASES[name].options

    def of_input(position):
        def call(moved):
            others = [moved if i == position else a for i, a in enumerate(arrays)]
            return oracle(*others, **parameters, **options)

        return slope(call, arrays[position], cotangent.numpy())

    def of_parameter(key):
        def call(moved):
            return oracle(*arrays, **{**parameters, key: moved}, **options)

        return slope(call, parameters[key], cotangent.numpy())

    expected = [*map(of_input, range(len(inputs))), *map(of_parameter, parameters)]
    for ours, theirs in zip(gradients_of(norm, inputs, cotangent), expected, strict=True):
        assert_close(ours, theirs, 1e-8)


@both_versions
def test_the_gradients_of_add_rms_norm_are_those_of_finite_differences(kind):
    norm = kind(D_MODEL, dtype=torch.float64)

    def call(x, residual, weight):
        norm.weight.data = weight
        return torch.func.functional_call(AddRMSNorm(norm), {"norm.weight": weight}, (x, residual))

    arguments = [random(2, D_MODEL), random(2, D_MODEL, seed=1), 1.5 + random(D_MODEL, seed=2)]
    assert torch.autograd.gradcheck(call, [a.requires_grad_() for a in arguments])


class AddRMSNorm(torch.nn.Module):
    """A module whose forward is the residual add and norm of another."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x, residual):
        return self.norm.add_rms_norm(x, residual)


@each_norm
@each_dtype
def test_gradients_keep_the_dtype_and_are_rounded_once(name, dtype):
    inputs, cotangent = inputs_for(name, (20,), dtype), random(20, D_MODEL).to(dtype)
    exact = gradients_of(
        build(name, dtype).double(), [x.double() for x in inputs], cotangent.double()
    )
    for ours, theirs in zip(
        gradients_of(build(name, dtype), inputs, cotangent), exact, strict=True
    ):
        assert ours.dtype == dtype
        # The order of Llama rounds the gradient once more on its way, and so does each sum.
        assert_close(ours, to_numpy(theirs), 2 * TOLERANCE[dtype])


@both_versions
def test_the_gradient_of_a_wide_gain_is_summed_from_unrounded_terms(kind):
    x, cotangent = random(200, D_MODEL).bfloat16(), random(200, D_MODEL, seed=1).bfloat16()
    _, ours = gradients_of(kind(D_MODEL), [x], cotangent)
    _, exact = gradients_of(kind(D_MODEL).double(), [x.double()], cotangent.double())
    assert_close(ours, to_numpy(exact), 1e-6)


@both_versions
@pytest.mark.parametrize("dtypes", [("bfloat16", "float32"), ("float32", "bfloat16")], ids=str)
def test_both_terms_of_add_rms_norm_get_their_gradient_in_their_dtype(kind, dtypes):
    x, residual = (random(3, D_MODEL, seed=i).to(getattr(torch, d)) for i, d in enumerate(dtypes))
    x.requires_grad_()
    residual.requires_grad_()
    normalised, new_residual = kind(D_MODEL).add_rms_norm(x, residual)
    (normalised.square().sum() + new_residual.sum()).backward()
    assert (x.grad.dtype, residual.grad.dtype) == (x.dtype, residual.dtype)
    tolerance = TOLERANCE[torch.bfloat16] * residual.grad.abs().max()
    torch.testing.assert_close(x.grad.float(), residual.grad.float(), rtol=0, atol=tolerance)


@both_versions
def test_an_unused_result_of_add_rms_norm_adds_no_gradient(kind):
    x = random(2, D_MODEL).float().requires_grad_()
    _, new_residual = kind(D_MODEL).add_rms_norm(x, torch.ones(2, D_MODEL))
    new_residual.sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x))


@both_versions
def test_a_zero_vector_passes_its_gradient_on_over_the_root_of_eps(kind):
    norm, cotangent = kind(D_MODEL, eps=1e-4), random(D_MODEL).float()
    grad_x, grad_weight = gradients_of(norm, [torch.zeros(D_MODEL)], cotangent)
    torch.testing.assert_close(grad_x, 100 * cotangent)
    assert not grad_weight.any()


@each_norm
def test_the_gradient_of_a_zero_vector_is_finite(name):
    inputs = [torch.zeros(2, D_MODEL) for _ in inputs_for(name, ())]
    for gradient in gradients_of(build(name, torch.float32), inputs, torch.ones(2, D_MODEL)):
        assert gradient.isfinite().all()


@both_versions
@pytest.mark.parametrize("factor", [1e-3, 7.0, 1e4])
def test_the_gradient_shrinks_as_the_input_grows_and_that_of_the_gain_does_not(kind, factor):
    # Zhang and Sennrich 2019, sec. 4.2.
    norm, cotangent = kind(D_MODEL, eps=0.0, dtype=torch.float64), random(3, D_MODEL, seed=1)
    grad_x, grad_weight = gradients_of(norm, [random(3, D_MODEL)], cotangent)
    scaled_x, scaled_weight = gradients_of(norm, [factor * random(3, D_MODEL)], cotangent)
    torch.testing.assert_close(scaled_x, grad_x / factor, rtol=1e-12, atol=1e-12 / factor)
    torch.testing.assert_close(scaled_weight, grad_weight, rtol=1e-12, atol=1e-12)


@both_versions
def test_the_gradient_of_weights_before_the_norm_shrinks_as_they_grow(kind):
    # The norm cannot see the size of W in norm(W x): its gradient goes as 1 / size.
    norm, x, cotangent = kind(D_MODEL, eps=0.0), random(5, D_MODEL), random(5, D_MODEL, seed=1)
    gradients = []
    for factor in (1.0, 10.0):
        weights = (factor * random(D_MODEL, D_MODEL, seed=2)).requires_grad_()
        gradients += torch.autograd.grad(norm.double()(x @ weights.T), weights, cotangent)
    torch.testing.assert_close(gradients[1], gradients[0] / 10, rtol=1e-10, atol=1e-12)


@both_versions
def test_without_eps_the_gradient_is_at_right_angles_to_the_input(kind):
    norm, x = kind(D_MODEL, eps=0.0, dtype=torch.float64), random(4, D_MODEL)
    grad_x, _ = gradients_of(norm, [x], random(4, D_MODEL, seed=1))
    assert grad_x.norm(dim=-1).min() > 0.1
    assert (grad_x * x).sum(dim=-1).abs().max() < 1e-13


def test_partial_rmsnorm_passes_the_coordinates_that_it_does_not_measure_straight_through():
    norm, x = build("partial"), random(D_MODEL)
    cotangent = random(D_MODEL, seed=1)
    grad_x, _ = gradients_of(norm, [x], cotangent)
    root = to_numpy(x)[0] / rms_norm(to_numpy(x)[:2], weight=1.0)[0]
    expected = to_numpy(cotangent * norm.weight)[2:] / root
    np.testing.assert_allclose(to_numpy(grad_x)[2:], expected, rtol=1e-12)
