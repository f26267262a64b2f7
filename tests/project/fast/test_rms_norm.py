"""RMSNorm with the backward by hand: it agrees with the clear version, and what it saves."""

import pytest
import torch
from norm_cases import D_MODEL

from cs_basics.fast.rms_norm import FusedRMSNorm, sum_rows
from cs_basics.norms import RMSNorm
from cs_basics.run.hardware import reason_not_to_compile

DTYPES = [torch.bfloat16, torch.float32]


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def results_and_gradients(norm, x, residual=None):
    """Return what the norm gives, and the gradients of x, residual and gain."""
    leaves = [a.clone().requires_grad_() for a in (x, residual) if a is not None]
    results = [norm(*leaves)] if residual is None else list(norm.add_rms_norm(*leaves))
    loss = sum((y * random(*y.shape, seed=5 + i)).sum() for i, y in enumerate(results))
    return results + list(torch.autograd.grad(loss, [*leaves, norm.weight]))


def with_gain(norm):
    norm.weight.data.uniform_(0.5, 2.0, generator=torch.Generator().manual_seed(9))
    return norm


@pytest.mark.parametrize("cast_before_gain", [False, True])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4, 1e30])
def test_the_function_agrees_with_the_clear_version(cast_before_gain, adds, scale):
    x, residual = scale * random(6, D_MODEL), scale * random(6, D_MODEL, seed=1) if adds else None
    clear, by_hand = (
        results_and_gradients(
            with_gain(kind(D_MODEL, cast_before_gain=cast_before_gain)), x, residual
        )
        for kind in (RMSNorm, FusedRMSNorm)
    )
    for ours, expected in zip(by_hand, clear, strict=True):
        tolerance = float(2e-6 * expected.detach().abs().max())
        torch.testing.assert_close(ours, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("cast_before_gain", [False, True])
def test_in_bfloat16_the_function_gives_the_bits_of_the_clear_version(cast_before_gain):
    x = random(50, D_MODEL).bfloat16()
    clear, by_hand = (
        with_gain(kind(D_MODEL, dtype=torch.bfloat16, cast_before_gain=cast_before_gain))(x)
        for kind in (RMSNorm, FusedRMSNorm)
    )
    assert torch.equal(by_hand, clear)


@pytest.mark.parametrize(
    ("kind", "dtype", "bytes_per_coordinate"),
    [
        (RMSNorm, torch.bfloat16, 12),
        (RMSNorm, torch.float32, 12),
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
    x = random(2, D_MODEL).requires_grad_()
    (grad,) = torch.autograd.grad(FusedRMSNorm(D_MODEL)(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


@pytest.mark.parametrize("kind", [RMSNorm, FusedRMSNorm])
def test_an_empty_batch_gives_the_gain_a_gradient_of_zero(kind):
    *_, grad_x, grad_weight = results_and_gradients(kind(D_MODEL), torch.zeros(0, 3, D_MODEL))
    assert grad_x.shape == (0, 3, D_MODEL)
    assert torch.equal(grad_weight, torch.zeros(D_MODEL))


@pytest.mark.parametrize("kind", [RMSNorm, FusedRMSNorm])
def test_gradients_that_are_not_contiguous_are_taken(kind):
    x, norm = random(4, D_MODEL).requires_grad_(), kind(D_MODEL)
    (expected,) = torch.autograd.grad(norm(x).sum(), x)
    broadcast = torch.ones(()).expand(4, D_MODEL)
    (grad,) = torch.autograd.grad(norm(x), x, broadcast)
    torch.testing.assert_close(grad, expected)


@pytest.mark.compile
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # PyTorch's own, of what it does to compile.
@pytest.mark.parametrize("kind", [RMSNorm, FusedRMSNorm])
def test_compiled_in_one_graph_the_results_are_the_same(kind):
    if reason := reason_not_to_compile(torch.device("cpu")):
        pytest.skip(f"torch.compile does not work here: {reason}")
    norm = with_gain(kind(D_MODEL))
    x, residual = random(6, D_MODEL), random(6, D_MODEL, seed=1)
    expected = results_and_gradients(norm, x, residual)
    norm.add_rms_norm = torch.compile(norm.add_rms_norm, fullgraph=True)
    for ours, theirs in zip(results_and_gradients(norm, x, residual), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-6 * float(theirs.abs().max()))


@pytest.mark.parametrize("num_rows", [0, 1, 63, 64, 65, 128, 200])
def test_rows_summed_in_groups_are_all_rows(num_rows):
    rows = torch.arange(num_rows * 3, dtype=torch.float64).view(num_rows, 3)
    assert torch.equal(sum_rows(rows), rows.sum(dim=0))
