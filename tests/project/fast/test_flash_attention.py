"""Attention in tiles is attention, and its gradients are those of autograd.

The layers that use it: test_twins.py.
"""

import pytest
import torch
from attention_checks import (
    case,
    check_agreement,
    check_extremes,
    check_that_heads_are_apart,
    check_views,
    definition,
    results,
)

from cs_basics.fast import flash_attention
from cs_basics.fast.flash_attention import flash_causal_attention


@pytest.fixture(autouse=True)
def tile(request, monkeypatch):
    monkeypatch.setattr(flash_attention, "TILE", getattr(request, "param", 4))


@pytest.mark.parametrize("tile", [1, 4, 5, 13, 64], indirect=True)
# Scores of about 300 make the highest one move from tile to tile by more than exp can follow.
@pytest.mark.parametrize("scale", [1.0, 12.0])
def test_output_and_gradients_are_those_of_the_definition(scale):
    check_agreement(flash_causal_attention, (2, 3, 13, 6), torch.float64, scale)


@pytest.mark.parametrize("check", [check_extremes, check_that_heads_are_apart, check_views])
def test_it_promises_what_the_kernels_do(check):
    check(flash_causal_attention)


def test_bfloat16_is_as_near_to_float32_as_the_plain_form():
    exact = case((2, 3, 96, 6), torch.float32)
    rounded = [x.bfloat16() for x in exact]
    truth = results(definition, exact)
    ours, theirs = (results(attend, rounded) for attend in (flash_causal_attention, definition))
    for one, other, true in zip(ours, theirs, truth, strict=True):
        assert one.dtype == torch.bfloat16
        assert (one - true).norm() < 1.2 * (other - true).norm() + 1e-3 * true.norm()


def test_what_is_kept_for_the_backward_grows_with_the_length_and_not_with_its_square():
    kept = {}
    for seq in (64, 128):
        q, k, v, _ = (x.requires_grad_() for x in case((2, 3, seq, 6), torch.float64))
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda x, sizes=sizes: sizes.append(x.numel()) or x, lambda x: x
        ):
            flash_causal_attention(q, k, v)
        kept[seq] = sum(sizes)
    assert kept[128] == 2 * kept[64]


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="4 queries, 3 keys and 4 values"):
        flash_causal_attention(*(torch.zeros(n, 2) for n in (4, 3, 4)))
