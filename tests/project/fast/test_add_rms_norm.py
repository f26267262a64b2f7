"""Residual addition and norm in one: which sum the norm reads, and the form without new tensors."""

import norm_oracles as oracles
import numpy as np
import pytest
import torch
from norm_cases import D_MODEL, TOLERANCE, assert_close, random, to_numpy
from torch.profiler import ProfilerActivity, profile

from cs_basics.norms import RMSNorm
from cs_basics.variants.norms import GemmaRMSNorm, LlamaRMSNorm
from lab.norms.add_rms_norm import add_rms_norm, add_rms_norm_, add_rms_norm_unrounded
from lab.norms.rms_norm import FusedLlamaRMSNorm, FusedRMSNorm

KINDS = [RMSNorm, FusedRMSNorm, LlamaRMSNorm, FusedLlamaRMSNorm]
each_kind = pytest.mark.parametrize("kind", KINDS)
each_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


def case(kind, dtype, rows=200):
    """Return a norm with gains of its own, what a part gave, and a larger residual stream."""
    norm = kind(D_MODEL, dtype=dtype)
    norm.weight.data.uniform_(0.5, 2.0, generator=torch.Generator().manual_seed(1))
    x, residual = random(rows, D_MODEL), 8 * random(rows, D_MODEL, seed=1)
    return norm, x.to(dtype), residual.to(dtype)


def exact(norm, *terms):
    """Return the norm of a sum of unrounded float64 numbers."""
    return oracles.rms_norm(sum(map(to_numpy, terms)), weight=to_numpy(norm.weight))


@each_kind
@each_dtype
def test_the_unrounded_form_is_the_norm_of_the_sum_in_float64(kind, dtype):
    norm, x, residual = case(kind, dtype)
    normalised, new_residual = add_rms_norm_unrounded(norm, x, residual)
    assert normalised.dtype == new_residual.dtype == dtype
    assert torch.equal(new_residual, residual + x)
    assert_close(normalised, exact(norm, x, residual), TOLERANCE[dtype])


@each_kind
@each_dtype
def test_the_rounded_form_is_the_norm_of_the_stream_in_float64(kind, dtype):
    norm, x, residual = case(kind, dtype)
    normalised, new_residual = add_rms_norm(norm, x, residual)
    assert torch.equal(new_residual, residual + x)
    assert_close(normalised, exact(norm, new_residual), TOLERANCE[dtype])


def test_in_bfloat16_only_the_unrounded_form_is_within_one_rounding_of_the_true_norm():
    norm, x, residual = case(RMSNorm, torch.bfloat16)
    truth = exact(norm, x, residual)
    rounded, unrounded = (
        np.max(np.abs(to_numpy(add(norm, x, residual)[0]) - truth) / np.maximum(np.abs(truth), 1))
        for add in (add_rms_norm, add_rms_norm_unrounded)
    )
    assert unrounded < 1.001 * 2.0**-8 < 1.5 * 2.0**-8 < rounded
    norm, x, residual = case(RMSNorm, torch.float32)
    rounded, unrounded = (add(norm, x, residual) for add in (add_rms_norm, add_rms_norm_unrounded))
    assert torch.equal(rounded[0], unrounded[0])


def test_an_update_that_the_stream_is_too_coarse_for_is_seen_by_the_unrounded_norm_once():
    norm = RMSNorm(4, eps=0.0, dtype=torch.bfloat16)
    residual = torch.tensor([320.0, -320.0, 320.0, -320.0]).bfloat16()
    x = torch.tensor([0.9, -0.9, -0.9, 0.9]).bfloat16()  # The neighbours of 320 are 2 apart.
    rounded, stream = add_rms_norm(norm, x, residual)
    unrounded, same_stream = add_rms_norm_unrounded(norm, x, residual)
    assert torch.equal(stream, residual)
    assert torch.equal(same_stream, residual)
    assert rounded.tolist() == [1, -1, 1, -1]
    assert unrounded.tolist() == [1, -1, 0.99609375, -0.99609375]


@each_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_gradients_of_the_unrounded_form_are_those_of_the_two_operations(kind, dtype):
    norm, x, residual = case(kind, dtype, rows=6)
    gradients = []
    for add in (
        lambda norm, x, residual: (norm(x + residual), x + residual),
        add_rms_norm_unrounded,
    ):
        leaves = [t.clone().requires_grad_() for t in (x, residual)]
        results = add(norm, *leaves)
        cotangents = [random(6, D_MODEL, seed=5 + i).to(dtype) for i in range(2)]
        gradients.append(torch.autograd.grad(results, [*leaves, norm.weight], cotangents))
    for ours, theirs in zip(*gradients, strict=True):
        assert_close(ours, to_numpy(theirs), 10 * TOLERANCE[dtype])


@torch.no_grad()
@each_kind
@each_dtype
def test_in_place_the_bits_are_those_of_the_unrounded_form(kind, dtype):
    norm, x, residual = case(kind, dtype)
    expected = add_rms_norm_unrounded(norm, x, residual)
    results = add_rms_norm_(norm, x, residual)
    assert results[0] is x
    assert results[1] is residual
    assert all(map(torch.equal, results, expected))


def bytes_allocated(call, *arguments):
    """Return the sum of all bytes that operators allocate, however soon they are freed."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call(*arguments)
    sizes = (event.nbytes() for event in memory_events(profiler))
    return sum(size for size in sizes if size > 0)


def memory_events(profiler):
    return [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]


@torch.no_grad()
@pytest.mark.filterwarnings("ignore")  # The profiler's own.
@pytest.mark.parametrize(
    ("dtype", "unrounded", "in_place"),
    # Unrounded: both terms, their sum, its squares, two products, and the results. In place: the
    # sum, its squares, and in bfloat16 a float32 copy of the residual stream.
    [(torch.bfloat16, 26, 12), (torch.float32, 20, 8)],
    ids=str,
)
def test_in_place_less_than_half_of_the_bytes_are_allocated(dtype, unrounded, in_place):
    norm, x, residual = case(LlamaRMSNorm, dtype, rows=4096)
    for add, bytes_per_coordinate in (
        (add_rms_norm_unrounded, unrounded),
        (add_rms_norm_, in_place),
    ):
        num_bytes = bytes_allocated(add, norm, x, residual) - bytes_per_coordinate * x.numel()
        # Mean square, the same with eps, and its root: a number per vector each.
        assert num_bytes == pytest.approx(3 * 4 * len(x), abs=64), add


def circulating_add_rms_norm(norm, x, residual):
    """The function as inference code that is passed around has it."""
    dtype = x.dtype
    x = x.float().add_(residual.float())
    residual = x.to(dtype)
    mean_square = x.pow(2).mean(dim=-1, keepdim=True)
    x.mul_(torch.rsqrt(mean_square + norm.eps))
    return x.to(dtype).mul_(norm.weight), residual


@torch.no_grad()
def test_code_that_circulates_is_right_in_bfloat16_and_loses_the_stream_in_float32():
    norm, x, residual = case(LlamaRMSNorm, torch.bfloat16)
    expected = add_rms_norm_unrounded(norm, x, residual)
    assert all(map(torch.equal, circulating_add_rms_norm(norm, x, residual), expected))

    norm, x, residual = case(LlamaRMSNorm, torch.float32)
    stream, given = residual + x, x.clone()
    normalised, new_residual = circulating_add_rms_norm(norm, x, residual)
    # One tensor under three names: the caller's x, the result and the stream.
    assert normalised.data_ptr() == new_residual.data_ptr() == x.data_ptr()
    assert not torch.equal(x, given)
    assert new_residual.abs().max() < 0.5 * stream.abs().max()  # normalised, no longer the sum

    x = given.clone()
    ours = add_rms_norm_(norm, x, residual)
    torch.testing.assert_close(ours[0], normalised)
    assert torch.equal(ours[1], stream)


def test_what_cannot_be_done_in_place_is_refused():
    norm, x, residual = case(RMSNorm, torch.float32)
    with pytest.raises(ValueError, match=r"call it under torch\.no_grad"):
        add_rms_norm_(norm, x, residual)
    with torch.no_grad():
        with pytest.raises(ValueError, match=r"residual of torch.bfloat16 .* torch.float32"):
            add_rms_norm_(norm, x, residual.bfloat16())
        with pytest.raises(ValueError, match="must be like x"):
            add_rms_norm_(norm, x, residual[:1])


def test_a_norm_with_a_gain_of_its_own_is_refused():
    x = torch.ones(2, 8)
    for form in (add_rms_norm_unrounded, add_rms_norm_):
        with torch.no_grad(), pytest.raises(TypeError, match="GemmaRMSNorm must be RMSNorm or Ll"):
            form(GemmaRMSNorm(8), x, x.clone())
