"""Optimizers: gradient descent, which no problem examines, and what clipping refuses."""

import math

import pytest
import torch

from cs_basics.optim import SGD, AdamW, clip_grad_norm


def test_the_rate_of_gradient_descent_falls_with_the_root_of_the_step():
    p, without = (torch.nn.Parameter(torch.tensor([2.0, -1.0])) for _ in range(2))
    optimizer, expected = SGD([p, without], lr=0.5), p.detach().clone()

    def closure():
        optimizer.zero_grad()
        loss = p.square().sum()
        loss.backward()
        return loss

    for step in range(3):
        assert optimizer.step(closure).item() == pytest.approx(expected.square().sum().item())
        expected -= 0.5 / math.sqrt(step + 1) * 2 * expected
        torch.testing.assert_close(p.detach(), expected)
    assert without.tolist() == [2.0, -1.0]


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_numbers_that_no_update_can_be_made_with_are_refused(value):
    p = torch.nn.Parameter(torch.ones(2))
    for name, optimizer in [("lr", SGD), *((n, AdamW) for n in ("lr", "eps", "weight_decay"))]:
        with pytest.raises(ValueError, match=f"{name}={value} must be finite and at least 0"):
            optimizer([p], **{name: value})
    with pytest.raises(ValueError, match=rf"betas=\(0.9, {value}\)"):
        AdamW([p], betas=(0.9, value))


@pytest.mark.parametrize("max_norm", [0.0, -1.0, math.nan])
def test_a_limit_of_clipping_is_above_zero(max_norm):
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    with pytest.raises(ValueError, match=f"max_norm={max_norm} must be greater than 0"):
        clip_grad_norm([weight], max_norm)
    assert weight.grad.equal(torch.ones(2))
