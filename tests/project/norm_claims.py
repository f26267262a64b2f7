"""What holds for every norm. A subclass names its norms: those of a room."""

from typing import Any, ClassVar

import pytest
import torch
from norm_cases import (
    CASES,
    D_MODEL,
    TOLERANCE,
    assert_close,
    build,
    gradients_of,
    inputs_for,
    random,
    to_numpy,
)
from norm_oracles import slope

each_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
each_low_dtype = pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str
)
LARGEST = 1e18
"""Squares of larger float32 values overflow, which is out of range by decision."""


class NormClaims:
    """Values, types and gradients; the norms are given by `names` (see conftest.py)."""

    names: ClassVar[dict[str, Any]]

    @pytest.mark.parametrize("leading", [(), (1,), (5,), (2, 3), (2, 1, 3, 2), (0, 3)], ids=str)
    def test_a_norm_does_in_every_shape_what_its_definition_says(self, norm_name, leading):
        norm, inputs = build(norm_name), inputs_for(norm_name, leading)
        result = norm(*inputs)
        assert result.shape == (*leading, D_MODEL)
        assert_close(result, CASES[norm_name].answer(norm, *inputs), 1e-14)

    @each_dtype
    @pytest.mark.parametrize("wide_parameters", [False, True])
    def test_a_norm_keeps_the_dtype_and_rounds_only_its_result(
        self, norm_name, dtype, wide_parameters
    ):
        parameter_dtype = torch.promote_types(dtype, torch.float32) if wide_parameters else dtype
        norm, inputs = build(norm_name, parameter_dtype), inputs_for(norm_name, (50,), dtype)
        result = norm(*inputs)
        assert result.dtype == dtype
        assert_close(result, CASES[norm_name].answer(norm, *inputs), TOLERANCE[dtype])

    def test_a_norm_takes_inputs_that_are_not_contiguous_and_leaves_them_as_they_are(
        self, norm_name
    ):
        norm, inputs = build(norm_name), inputs_for(norm_name, (4, 3))
        strided = [x.transpose(0, 2).contiguous().transpose(0, 2) for x in inputs]
        assert not strided[0].is_contiguous()
        assert_close(norm(*strided), CASES[norm_name].answer(norm, *inputs), 1e-14)
        assert all(map(torch.equal, strided, inputs))

    def test_a_norm_lives_on_the_device_that_it_is_given(self, norm_name):
        norm = CASES[norm_name].build(device="meta", dtype=torch.bfloat16)
        inputs = [x.to("meta") for x in inputs_for(norm_name, (2,))]
        assert norm(*inputs).device.type == "meta"
        assert {p.dtype for p in norm.parameters()} == {torch.bfloat16}

    def test_each_token_is_normalised_alone(self, norm_name):
        norm, inputs = build(norm_name), inputs_for(norm_name, (4, 3))
        result = norm(*inputs)
        for index in [(0, 0), (2, 1), (3, 2)]:
            alone = norm(*(x[index] for x in inputs))
            torch.testing.assert_close(result[index], alone, rtol=1e-14, atol=1e-14)
        for x in inputs:
            x[2, 1] = float("nan")
        changed = norm(*inputs).isnan().all(dim=-1)
        assert changed.sum() == 1
        assert changed[2, 1]

    @pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
    def test_what_is_not_finite_is_not_hidden(self, norm_name, bad):
        x, *gate = inputs_for(norm_name, (), torch.float32)
        x[1] = bad
        assert build(norm_name, torch.float32)(x, *gate)[1].isnan()

    @each_low_dtype
    def test_a_zero_vector_stays_zero_and_passes_a_finite_gradient(self, norm_name, dtype):
        norm, inputs = CASES[norm_name].build(dtype=dtype), inputs_for(norm_name, (2,), dtype)
        inputs[0] = torch.zeros_like(inputs[0])
        assert torch.equal(norm(*inputs), inputs[0])
        cotangent = torch.ones(2, D_MODEL, dtype=dtype)
        assert all(g.isfinite().all() for g in gradients_of(norm, inputs, cotangent))

    @each_low_dtype
    def test_nothing_overflows_at_the_largest_values_in_range(self, norm_name, dtype):
        largest = min(torch.finfo(dtype).max, LARGEST)
        x = (random(4, D_MODEL).clamp(-3, 3) / 3 * largest).to(dtype)
        gates = [torch.ones_like(x)] if "gate" in norm_name else []
        norm = build(norm_name, dtype)
        expected = CASES[norm_name].answer(norm, x, *gates)
        assert_close(norm(x, *gates), expected, TOLERANCE[dtype])

    @pytest.mark.parametrize("leading", [(), (3,), (2, 2)], ids=str)
    def test_the_gradients_are_those_of_finite_differences(self, norm_name, leading):
        norm, inputs = build(norm_name), inputs_for(norm_name, leading)
        names = [parameter for parameter, _ in norm.named_parameters()]

        def call(*arguments):
            parameters = dict(zip(names, arguments[len(inputs) :], strict=True))
            return torch.func.functional_call(norm, parameters, arguments[: len(inputs)])

        arguments = [*inputs, *(p.detach().clone() for p in norm.parameters())]
        assert torch.autograd.gradcheck(call, [a.requires_grad_() for a in arguments])

    def test_the_gradients_are_the_slopes_of_the_oracle(self, norm_name):
        norm, inputs = build(norm_name), inputs_for(norm_name, (2,))
        cotangent = random(2, D_MODEL, seed=1)
        arrays = [to_numpy(x) for x in inputs]
        parameters = {key: to_numpy(value) for key, value in norm.named_parameters()}
        oracle, options = CASES[norm_name].oracle, CASES[norm_name].options

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

    @each_dtype
    def test_gradients_keep_the_dtype_and_are_rounded_once(self, norm_name, dtype):
        inputs = inputs_for(norm_name, (20,), dtype)
        cotangent = random(20, D_MODEL).to(dtype)
        exact = gradients_of(
            build(norm_name, dtype).double(), [x.double() for x in inputs], cotangent.double()
        )
        for ours, theirs in zip(
            gradients_of(build(norm_name, dtype), inputs, cotangent), exact, strict=True
        ):
            assert ours.dtype == dtype
            # The order of Llama rounds the gradient once more on its way, and so does each sum.
            assert_close(ours, to_numpy(theirs), 2 * TOLERANCE[dtype])

    @pytest.mark.parametrize("eps", [-1e-5, float("nan")])
    def test_an_eps_below_zero_is_rejected(self, norm_name, eps):
        with pytest.raises(ValueError, match="must be 0 or greater"):
            CASES[norm_name].build(eps=eps)

    def test_the_names_of_the_weights_are_weight_and_bias(self, norm_name):
        names = ["weight", "bias"] if norm_name == "layernorm" else ["weight"]
        assert list(CASES[norm_name].build().state_dict()) == names


class RMSNormClaims:
    """What holds for RMSNorm as the book defines it, and for whatever computes the same."""

    kind: ClassVar[Any]

    @pytest.mark.parametrize("factor", [1e-6, 0.3, 1e6])
    def test_it_is_scale_invariant(self, factor):
        norm, x = self.kind(D_MODEL, eps=0.0), random(5, D_MODEL)
        torch.testing.assert_close(norm(factor * x), norm(x), rtol=1e-13, atol=1e-13)

    def test_it_turns_with_the_sign(self):
        norm, x = self.kind(D_MODEL), random(5, D_MODEL)
        assert torch.equal(norm(-x), -norm(x))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
    def test_the_result_has_root_mean_square_1_where_the_gain_is_1(self, dtype):
        result = root_mean_square(self.kind(D_MODEL, eps=0.0)(random(5, D_MODEL).to(dtype)))
        torch.testing.assert_close(result, torch.ones(5, dtype=dtype), rtol=1e-6, atol=0)

    def test_the_root_mean_square_of_1_2_3_4_is_the_root_of_7_and_a_half(self):
        x = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
        ratio = x / self.kind(4, eps=0.0, dtype=torch.float64)(x)
        torch.testing.assert_close(ratio, torch.full_like(x, 7.5**0.5), rtol=1e-15, atol=0)

    @pytest.mark.parametrize("eps", [1e-2, 1e-5, 1e-8])
    def test_eps_stands_inside_the_root(self, eps):
        # Where mean square = eps, the result has root mean square sqrt(eps / (eps + eps)). Outside
        # the root the same eps is far smaller than the root, sqrt(eps), and would hardly count.
        x = random(5, D_MODEL)
        x = x / root_mean_square(x)[:, None] * eps**0.5
        result = root_mean_square(self.kind(D_MODEL, eps=eps)(x))
        inside, outside = 0.5**0.5, 1 / (1 + eps**0.5)
        torch.testing.assert_close(result, torch.full_like(result, inside), rtol=1e-12, atol=0)
        assert (result - outside).abs().min() > 0.2

    def test_eps_limits_how_much_a_small_vector_grows(self):
        norm, x = self.kind(D_MODEL, eps=1e-4), random(5, D_MODEL)
        torch.testing.assert_close(norm(1e-9 * x), 1e-7 * x, rtol=1e-9, atol=0)
        without = self.kind(D_MODEL, eps=0.0)(x)
        torch.testing.assert_close(norm(1e9 * x), without, rtol=1e-12, atol=0)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
    def test_the_smallest_numbers_grow_by_the_root_of_eps(self, dtype):
        x = torch.tensor([1, -2, 1000, 0], dtype=torch.float64) * torch.finfo(dtype).tiny
        result = self.kind(4, eps=1e-4)(x.to(dtype))
        assert_close(result, 100 * to_numpy(x), TOLERANCE[dtype])

    @pytest.mark.parametrize("size", [1e-15, 1e-9, 1e9, 1e18])
    def test_vectors_of_any_size_in_range_are_normalised(self, size):
        x = torch.tensor([1.0, -2.0, 3.0, -4.0]) * size / 4
        expected = torch.tensor([1.0, -2.0, 3.0, -4.0]) / 7.5**0.5
        assert_close(self.kind(4, eps=0.0)(x), to_numpy(expected), 2e-6)

    @pytest.mark.parametrize("size", [1e-4, 1.0, 1e8, 1e12])
    def test_a_small_gradient_is_right_for_inputs_of_any_size(self, size):
        # Gradients of a mean over many tokens are as small as this. Divided by the square of a
        # large input they would fall below the smallest float32.
        x, cotangent = (size * random(4, D_MODEL)).float(), 1e-8 * random(4, D_MODEL, seed=1)
        ours, exact = (
            gradients_of(self.kind(D_MODEL), [x.to(to)], cotangent.to(to))[0]
            for to in (torch.float32, torch.float64)
        )
        # A few roundings, and below 1.2e-38 a float32 has fewer digits.
        limit = 2e-6 * exact.abs().max() + 2.0**-149 * D_MODEL
        assert (ours - exact).abs().max() < limit

    def test_the_gradient_of_a_wide_gain_is_summed_from_unrounded_terms(self):
        x, cotangent = (random(200, D_MODEL, seed=seed).bfloat16() for seed in (0, 1))
        _, ours = gradients_of(self.kind(D_MODEL), [x], cotangent)
        _, exact = gradients_of(self.kind(D_MODEL).double(), [x.double()], cotangent.double())
        assert_close(ours, to_numpy(exact), 1e-6)

    def test_a_zero_vector_passes_its_gradient_on_over_the_root_of_eps(self):
        norm, cotangent = self.kind(D_MODEL, eps=1e-4), random(D_MODEL).float()
        grad_x, grad_weight = gradients_of(norm, [torch.zeros(D_MODEL)], cotangent)
        torch.testing.assert_close(grad_x, 100 * cotangent)
        assert not grad_weight.any()

    @pytest.mark.parametrize("factor", [1e-3, 7.0, 1e4])
    def test_the_gradient_shrinks_as_the_input_grows_and_that_of_the_gain_does_not(self, factor):
        # Zhang and Sennrich 2019, sec. 4.2.
        norm = self.kind(D_MODEL, eps=0.0, dtype=torch.float64)
        cotangent = random(3, D_MODEL, seed=1)
        grad_x, grad_weight = gradients_of(norm, [random(3, D_MODEL)], cotangent)
        scaled_x, scaled_weight = gradients_of(norm, [factor * random(3, D_MODEL)], cotangent)
        torch.testing.assert_close(scaled_x, grad_x / factor, rtol=1e-12, atol=1e-12 / factor)
        torch.testing.assert_close(scaled_weight, grad_weight, rtol=1e-12, atol=1e-12)

    def test_the_gradient_of_weights_before_the_norm_shrinks_as_they_grow(self):
        # The norm cannot see the size of W in norm(W x): its gradient goes as 1 / size.
        norm = self.kind(D_MODEL, eps=0.0).double()
        x, cotangent = random(5, D_MODEL), random(5, D_MODEL, seed=1)
        gradients = []
        for factor in (1.0, 10.0):
            weights = (factor * random(D_MODEL, D_MODEL, seed=2)).requires_grad_()
            gradients += torch.autograd.grad(norm(x @ weights.T), weights, cotangent)
        torch.testing.assert_close(gradients[1], gradients[0] / 10, rtol=1e-10, atol=1e-12)

    def test_without_eps_the_gradient_is_at_right_angles_to_the_input(self):
        norm, x = self.kind(D_MODEL, eps=0.0, dtype=torch.float64), random(4, D_MODEL)
        grad_x, _ = gradients_of(norm, [x], random(4, D_MODEL, seed=1))
        assert grad_x.norm(dim=-1).min() > 0.1
        assert (grad_x * x).sum(dim=-1).abs().max() < 1e-13


def root_mean_square(x):
    return x.square().mean(dim=-1).sqrt()
