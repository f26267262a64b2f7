"""All norms against NumPy in float64, and what each promises beside it."""

import math

import numpy as np
import pytest
import torch

from cs_basics.norms import RMSNorm
from cs_basics.settings.model import ModelConfig
from cs_basics.variants.model import make_norm
from cs_basics.variants.norms import (
    GemmaRMSNorm,
    GroupRMSNorm,
    LayerNorm,
    LlamaRMSNorm,
    PartialRMSNorm,
)

D_MODEL = 24
# Of the largest value of a result. The low types: two roundings, of the result and (in the order
# of Llama) of what the gain multiplies. The wide types: the roundings of a handful of operations.
TOLERANCE = {
    torch.float16: 2 * 2.0**-11,
    torch.bfloat16: 2 * 2.0**-8,
    torch.float32: 1e-6,
    torch.float64: 1e-14,
}


def over_root(x, measured):
    return x / np.sqrt(np.mean(measured**2, axis=-1, keepdims=True) + 1e-5)


def in_groups(x):
    return np.concatenate([over_root(group, group) for group in np.split(x, 4, -1)], -1)


def centred(x):
    return x - x.mean(-1, keepdims=True)


# Each norm with its options, and what it returns of x, its weight, and its bias.
NORMS = {
    "rmsnorm": (RMSNorm, {}, lambda x, w, _: over_root(x, x) * w),
    "layernorm": (LayerNorm, {}, lambda x, w, bias: over_root(centred(x), centred(x)) * w + bias),
    "layernorm-no-bias": (
        LayerNorm, {"bias": False}, lambda x, w, _: over_root(centred(x), centred(x)) * w
    ),
    "llama": (LlamaRMSNorm, {}, lambda x, w, _: over_root(x, x) * w),
    "gemma": (GemmaRMSNorm, {}, lambda x, w, _: over_root(x, x) * (1 + w)),
    "partial": (PartialRMSNorm, {}, lambda x, w, _: over_root(x, x[..., :2]) * w),
    "partial-8th": (
        PartialRMSNorm, {"fraction": 1 / 8}, lambda x, w, _: over_root(x, x[..., :3]) * w
    ),
    "group": (GroupRMSNorm, {"num_groups": 4}, lambda x, w, _: in_groups(x) * w),
}  # fmt: skip
each_norm = pytest.mark.parametrize("name", NORMS)
each_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


def build(name, dtype=torch.float64, leading=(5,), **more):
    """Return a norm with a random gain, and its input."""
    torch.manual_seed(0)
    kind, options, _ = NORMS[name]
    norm = kind(D_MODEL, dtype=dtype, **options, **more)
    for parameter in norm.parameters():
        torch.nn.init.uniform_(parameter, 0.5, 2.0)
    return norm, (0.5 + torch.randn(*leading, D_MODEL)).to(dtype)


def answer(name, norm, x):
    x, weight, bias = (
        None if a is None else a.detach().double().numpy()
        for a in (x, norm.weight, getattr(norm, "bias", None))
    )
    return torch.from_numpy(NORMS[name][2](x, weight, bias))


def assert_close(found, exact, tolerance):
    limit = tolerance * float(exact.abs().max())
    torch.testing.assert_close(found.detach().double(), exact.detach(), rtol=0, atol=limit)


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
    assert_close(result, answer(name, norm, x), TOLERANCE[dtype])


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
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_gradients_keep_the_dtype_and_are_rounded_once(name, dtype):
    norm, x = build(name, dtype)
    found = []
    for to in (dtype, torch.float64):
        leaf = x.to(to).requires_grad_()
        result = norm.to(to)(leaf)
        found.append(torch.autograd.grad(result, [leaf, *norm.parameters()], result.sign()))
    for one, exact in zip(*found, strict=True):
        assert one.dtype == dtype
        # The order of Llama rounds the gradient once more on its way, and so does each sum.
        assert_close(one, exact, 2 * TOLERANCE[dtype])


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
    norm, inputs = build(name, torch.bfloat16, device="meta")
    assert norm(*(x.to("meta") for x in inputs)).device.type == "meta"
    assert {p.dtype for p in norm.state_dict().values()} == {torch.bfloat16}


def test_gemmas_norm_starts_as_rmsnorm_with_weights_of_zero():
    norm, x = GemmaRMSNorm(D_MODEL), torch.randn(5, D_MODEL)
    assert not norm.weight.any()
    assert torch.equal(norm(x), RMSNorm(D_MODEL)(x))


@pytest.mark.parametrize(("low", "bits"), [(torch.bfloat16, 8), (torch.float16, 11)], ids=str)
def test_the_order_of_llama_rounds_twice_and_the_definition_once(low, bits):
    norm, (x,) = build("llama", low, (200,))
    once, worst, halved = 2.0**-bits, {}, []
    for kind in (RMSNorm, LlamaRMSNorm):
        other = kind(D_MODEL, dtype=low)
        other.load_state_dict(norm.state_dict())
        worst[kind] = (other(x).double() / answer("llama", norm, x) - 1).abs().max()
        other.weight.data.fill_(0.5)
        halved.append(other(x))
    assert torch.equal(*halved)  # Of a power of two the gain rounds nothing.
    assert worst[RMSNorm] < 1.001 * once
    assert 1.3 * once < worst[LlamaRMSNorm] < 2.01 * once


@pytest.mark.parametrize(
    ("fraction", "d_model", "num_measured"),
    [(0.0625, 512, 32), (1.0, 7, 7), (0.0625, 8, 1), (0.07, 100, 7), (0.5, 7, 4)],
)
def test_partial_rmsnorm_measures_its_fraction_rounded_up(fraction, d_model, num_measured):
    assert PartialRMSNorm(d_model, fraction=fraction).num_measured == num_measured


@pytest.mark.parametrize(
    ("kind", "type_", "choice"),
    [
        ("rmsnorm", RMSNorm, {}),
        ("rmsnorm-llama", LlamaRMSNorm, {}),
        ("layernorm", LayerNorm, {}),
        ("layernorm-no-bias", LayerNorm, {"bias": None}),
        ("partial-rmsnorm", PartialRMSNorm, {"num_measured": 2}),
        ("group-rmsnorm", GroupRMSNorm, {"num_groups": 8}),
        ("rmsnorm-gemma", GemmaRMSNorm, {}),
    ],
)
def test_make_norm_builds_each_kind_with_its_choice(kind, type_, choice):
    config = ModelConfig(d_model=32, num_heads=2, norm=kind, norm_eps=0.25)
    norm = make_norm(config, dtype=torch.float16)
    assert type(norm) is type_
    expected = {"d_model": 32, "eps": 0.25} | choice
    assert {name: getattr(norm, name) for name in expected} == expected
    assert ("bias" in norm.state_dict()) == (kind == "layernorm")
    assert norm.weight.dtype == torch.float16


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: ModelConfig(norm="batchnorm"), "norm='batchnorm' is unknown"),
        (lambda: PartialRMSNorm(8, fraction=0.0), "fraction=0.0 must be above 0 and at most 1"),
        (lambda: PartialRMSNorm(8, fraction=1.01), "fraction=1.01 must be"),
        (lambda: GroupRMSNorm(8, num_groups=0), "num_groups=0 must be a divisor of d_model=8"),
        (lambda: GroupRMSNorm(8, num_groups=3), "num_groups=3 must be a divisor"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong()
