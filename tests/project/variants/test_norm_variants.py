"""All norms against NumPy in float64, and what each promises beside it."""

import math
from functools import partial

import pytest
import torch
from small_models import NORM_FORMULAS, rms

from cs_basics.norms import RMSNorm
from cs_basics.variants.model import NORMS as KINDS
from cs_basics.variants.norms import (
    GemmaRMSNorm,
    GroupRMSNorm,
    PartialRMSNorm,
)

D_MODEL = 24
EPS = 1e-5
# The roundings of a handful of operations, of the largest value of a result. The low types are
# computed in float32, too, and then rounded by up to half a step of their own.
TOLERANCE = {
    torch.float16: 1e-6,
    torch.bfloat16: 1e-6,
    torch.float32: 1e-6,
    torch.float64: 1e-14,
}


# What makes each norm, and what it returns of x, eps and its parameters by name.
NORMS = {name: (KINDS[name], formula) for name, formula in NORM_FORMULAS.items()} | {
    "partial-8th": (
        partial(PartialRMSNorm, fraction=1 / 8),
        lambda x, eps, weight: rms(x, eps, x[..., :3]) * weight,
    ),
}
each_norm = pytest.mark.parametrize("name", NORMS)
each_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


def build(name, dtype=torch.float64, leading=(5,), device=None):
    """Return a norm with a random gain, and its input."""
    torch.manual_seed(0)
    kind, _ = NORMS[name]
    norm = kind(D_MODEL, EPS, device, dtype)
    for parameter in norm.parameters():
        torch.nn.init.uniform_(parameter, 0.5, 2.0)
    return norm, (0.5 + torch.randn(*leading, D_MODEL)).to(dtype)


def answer(name, norm, x):
    _, formula = NORMS[name]
    given = {"x": x, **dict(norm.named_parameters())}
    wide = {key: value.detach().double().numpy() for key, value in given.items()}
    return torch.from_numpy(formula(eps=EPS, **wide))


def assert_close(found, exact, tolerance, share=0.0):
    limit = tolerance * float(exact.abs().max())
    torch.testing.assert_close(found.detach().double(), exact, rtol=share, atol=limit)


@each_norm
@each_dtype
@pytest.mark.parametrize("has_wide_gain", [False, True])
def test_a_norm_is_its_definition_in_the_dtype_of_its_input_rounded_once(
    name, dtype, has_wide_gain
):
    norm, x = build(name, dtype, (2, 25))
    if has_wide_gain:
        norm = norm.to(torch.promote_types(dtype, torch.float32))
    result = norm(x)
    assert result.dtype == dtype
    num_roundings = 2 if name == "rmsnorm-llama" else 1  # Also of what the gain multiplies.
    step = torch.finfo(dtype).eps
    assert_close(result, answer(name, norm, x), TOLERANCE[dtype], 1.01 * num_roundings * step / 2)


@each_norm
@pytest.mark.parametrize("leading", [(), (2, 3)], ids=str)
def test_the_gradients_are_those_of_finite_differences(name, leading):
    norm, x = build(name, leading=leading)
    names, weights = zip(*norm.named_parameters(), strict=True)

    def call(x, *weights):
        return torch.func.functional_call(norm, dict(zip(names, weights, strict=True)), x)

    arguments = [a.detach().clone().requires_grad_() for a in (x, *weights)]
    assert torch.autograd.gradcheck(call, arguments)


@each_norm
def test_a_norm_survives_zeros_and_large_values_and_hides_nothing_that_is_not_finite(name):
    norm, x = build(name, torch.float32, (4,))
    rows = torch.stack([torch.zeros_like(x[0]), 1e18 * x[1].sign(), x[2], x[3]]).requires_grad_()
    assert_close(norm(rows)[:2], answer(name, norm, rows)[:2], 1e-6)
    norm(rows)[:2].sum().backward()
    assert rows.grad.isfinite().all()
    with torch.no_grad():
        rows[2, 1], rows[3, 1] = math.inf, math.nan
    assert norm(rows)[:, 1].isnan().tolist() == [False, False, True, True]


@each_norm
def test_a_norm_lives_where_it_is_told(name):
    norm, x = build(name, torch.bfloat16, device="meta")
    assert norm(x.to("meta")).device.type == "meta"
    assert {p.dtype for p in norm.state_dict().values()} == {torch.bfloat16}


def test_gemmas_norm_starts_as_rmsnorm_with_weights_of_zero():
    norm, x = GemmaRMSNorm(D_MODEL), torch.randn(5, D_MODEL)
    assert not norm.weight.any()
    assert torch.equal(norm(x), RMSNorm(D_MODEL)(x))


@pytest.mark.parametrize(("low", "bits"), [(torch.bfloat16, 8), (torch.float16, 11)], ids=str)
def test_the_order_of_llama_rounds_twice(low, bits):
    norm, x = build("rmsnorm-llama", low, (200,))
    worst = (norm(x).double() / answer("rmsnorm-llama", norm, x) - 1).abs().max()
    assert 1.3 * 2.0**-bits < worst
    other = RMSNorm(D_MODEL, dtype=low)
    for one in (norm, other):
        one.weight.data.fill_(0.5)
    assert torch.equal(norm(x), other(x))  # Of a power of two the gain rounds nothing.


@pytest.mark.parametrize(
    ("fraction", "d_model", "num_measured"),
    [(0.0625, 512, 32), (1.0, 7, 7), (0.0625, 8, 1), (0.07, 100, 7), (0.5, 7, 4)],
)
def test_partial_rmsnorm_measures_its_fraction_rounded_up(fraction, d_model, num_measured):
    assert PartialRMSNorm(d_model, fraction=fraction).num_measured == num_measured


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: PartialRMSNorm(8, fraction=0.0), "fraction=0.0 must be above 0 and at most 1"),
        (lambda: PartialRMSNorm(8, fraction=1.01), "fraction=1.01 must be"),
        (lambda: GroupRMSNorm(8, num_groups=0), "num_groups=0 must be a divisor of d_model=8"),
        (lambda: GroupRMSNorm(8, num_groups=3), "num_groups=3 must be a divisor"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong()
