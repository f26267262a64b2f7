"""The norms at the ends of the float types: nothing overflows and zero stays zero."""

import numpy as np
import pytest
import torch
from norm_cases import (
    CASES,
    D_MODEL,
    TOLERANCE,
    assert_close,
    build,
    each_norm,
    inputs_for,
    to_numpy,
)

from cs_basics.fast.rms_norm import FusedRMSNorm
from cs_basics.norms import LayerNorm, RMSNorm

LOW = [torch.float16, torch.bfloat16, torch.float32]
each_low_dtype = pytest.mark.parametrize("dtype", LOW, ids=str)
both_versions = pytest.mark.parametrize("kind", [RMSNorm, FusedRMSNorm])


def edge_vectors(dtype, d_model=D_MODEL):
    """Return vectors of the largest number: all of it, both signs, one of it, any part of it."""
    largest = torch.finfo(dtype).max
    parts = torch.rand(4, d_model, generator=torch.Generator().manual_seed(0)).double()
    parts[0], parts[1] = 1.0, torch.where(torch.arange(d_model) % 3 == 0, -1.0, 1.0)
    parts[2, 1:] = 0.0
    return (parts * largest).to(dtype)


@each_norm
@each_low_dtype
def test_nothing_overflows_at_the_edge_of_a_type(name, dtype):
    x = edge_vectors(dtype)
    if name.startswith("layernorm"):
        x = x[1:]  # Of equal numbers this large, the deviations are roundings of their mean.
    gates = [torch.ones_like(x)] if len(inputs_for(name, ())) == 2 else []
    norm = build(name, dtype)
    result = norm(x, *gates)
    expected = CASES[name].answer(norm, x, *gates)
    assert_close(result, expected, TOLERANCE[dtype])


@both_versions
@each_low_dtype
def test_the_gradients_are_right_at_the_edge_of_a_type(kind, dtype):
    x = edge_vectors(dtype)
    # The gradient goes as 1 / x: this one is large enough that it does not vanish.
    cotangent = torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    cotangent = (cotangent * torch.finfo(dtype).max ** 0.75).to(dtype)
    gradients = []
    for to in (dtype, torch.float64):
        leaf, norm = x.to(to).requires_grad_(), kind(D_MODEL, dtype=to)
        gradients.append(torch.autograd.grad(norm(leaf), [leaf, norm.weight], cotangent.to(to)))
    for ours, exact in zip(*gradients, strict=True):
        assert_close(ours, to_numpy(exact), 2 * TOLERANCE[dtype])


@both_versions
@pytest.mark.parametrize("size", [1e-4, 1.0, 1e8, 1e9, 2e9, 1e16, 1e18, 1e25])
def test_a_small_gradient_is_right_for_inputs_of_any_size(kind, size):
    # Gradients of a mean over many tokens are as small as this. Divided by the square of a large
    # input they would fall below the smallest float32.
    generator = torch.Generator().manual_seed(0)
    x = (size * torch.randn(4, D_MODEL, generator=generator)).float()
    cotangent = 1e-8 * torch.randn(4, D_MODEL, generator=generator)
    gradients = []
    for to in (torch.float32, torch.float64):
        leaf = x.to(to).requires_grad_()
        gradients += torch.autograd.grad(kind(D_MODEL)(leaf), leaf, cotangent.to(to))
    assert_close(gradients[0], to_numpy(gradients[1]), TOLERANCE[torch.float32])


@both_versions
def test_a_long_vector_of_the_largest_bfloat16_does_not_overflow(kind):
    x = torch.full((2, 8192), torch.finfo(torch.bfloat16).max, dtype=torch.bfloat16)
    assert torch.equal(kind(8192)(x), torch.ones_like(x))


@both_versions
def test_float64_is_safe_beyond_the_root_of_its_largest_number(kind):
    x = torch.full((D_MODEL,), -1e170, dtype=torch.float64)
    torch.testing.assert_close(kind(D_MODEL)(x), -torch.ones_like(x), rtol=1e-14, atol=0)


def test_layernorm_does_not_overflow_where_the_mean_of_the_values_would():
    x = torch.full((8192,), torch.finfo(torch.float32).max)
    x[::2] *= 0.5
    result = LayerNorm(8192)(x)
    torch.testing.assert_close(result[0], torch.tensor(-1.0), rtol=1e-4, atol=0)
    torch.testing.assert_close(result[1], torch.tensor(1.0), rtol=1e-4, atol=0)


@each_norm
@each_low_dtype
def test_a_zero_vector_stays_zero(name, dtype):
    x = torch.zeros(2, D_MODEL, dtype=dtype)
    norm, gates = CASES[name].build(dtype=dtype), inputs_for(name, (2,), dtype)[1:]
    assert torch.equal(norm(x, *gates), torch.zeros_like(x))


@both_versions
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_the_smallest_numbers_grow_by_the_root_of_eps(kind, dtype):
    x = torch.tensor([1, -2, 1000, 0], dtype=torch.float64) * torch.finfo(dtype).tiny
    result = kind(4, eps=1e-4)(x.to(dtype))
    assert_close(result, 100 * to_numpy(x), TOLERANCE[dtype])


@both_versions
@pytest.mark.parametrize("size", [1e-15, 1e-9])
def test_without_eps_small_vectors_are_normalised_too(kind, size):
    x = torch.tensor([1.0, -2.0, 3.0, -4.0]) * size
    expected = np.array([1, -2, 3, -4]) / 7.5**0.5
    assert_close(kind(4, eps=0.0)(x), expected, 2e-6)


@both_versions
@pytest.mark.parametrize("size", [1e9, 2.3e9, 1e18, 1.8e19, 1e25, 3.4e38])
def test_there_is_no_step_where_large_vectors_begin_or_squares_overflow(kind, size):
    x = torch.tensor([1.0, -0.5, 0.25, 1e-3]) * size
    expected = np.array([1, -0.5, 0.25, 1e-3]) / ((1 + 0.25 + 0.0625 + 1e-6) / 4) ** 0.5
    assert_close(kind(4)(x), expected, 1e-6)


@both_versions
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_is_not_hidden(kind, bad):
    x = torch.ones(D_MODEL)
    x[3] = bad
    assert kind(D_MODEL)(x)[3].isnan()
