"""Attention in tiles is attention, and its gradients are those of autograd.

The layers that use it: test_twins.py.
"""

import pytest
import torch

from cs_basics.fast import flash_attention
from cs_basics.fast.attention import to_half_split
from cs_basics.fast.flash_attention import flash_causal_attention
from cs_basics.functional import scaled_dot_product_attention


def case(seq=13, d_k=6, d_v=4, dtype=torch.float64, scale=1.0):
    generator = torch.Generator().manual_seed(0)
    return [
        (scale * torch.randn(2, 3, seq, d, generator=generator, dtype=dtype)).requires_grad_()
        for d in (d_k, d_k, d_v)
    ]


@pytest.fixture(autouse=True)
def tile(request, monkeypatch):
    monkeypatch.setattr(flash_attention, "TILE", getattr(request, "param", 4))


def plain(q, k, v):
    mask = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).tril()
    return scaled_dot_product_attention(q, k, v, mask)


def results(function, inputs):
    output = function(*inputs)
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    return [output, *torch.autograd.grad((output * weights).sum(), inputs)]


@pytest.mark.parametrize("tile", [1, 4, 5, 13, 64], indirect=True)
# Scores of about 300 make the highest one move from tile to tile by more than exp can follow.
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_output_and_gradients_are_the_plain_ones(scale):
    inputs = case(scale=scale)
    # Plain softmax computes in float32 at least, here in float64, as the tiles do.
    ours = results(flash_causal_attention, inputs)
    for one, other in zip(ours, results(plain, inputs), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_bfloat16_is_as_near_to_float32_as_the_plain_form():
    exact = case(seq=96, dtype=torch.float32)
    rounded = [x.detach().bfloat16().requires_grad_() for x in exact]
    truth = results(plain, exact)
    ours = results(flash_causal_attention, rounded)
    theirs = results(plain, rounded)
    for one, other, true in zip(ours, theirs, truth, strict=True):
        assert one.dtype == torch.bfloat16
        assert (one - true).norm() < 1.2 * (other - true).norm() + 1e-3 * true.norm()


def test_what_is_kept_for_the_backward_grows_with_the_length_and_not_with_its_square():
    kept = {}
    for seq in (64, 128):
        inputs = case(seq=seq)
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda x, sizes=sizes: sizes.append(x.numel()) or x, lambda x: x
        ):
            flash_causal_attention(*inputs)
        kept[seq] = sum(sizes)
    assert kept[128] == 2 * kept[64]


def test_half_split_order_keeps_heads_apart():
    rows = torch.arange(8.0).unsqueeze(1)
    assert to_half_split(rows, 2).flatten().tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="4 queries, 3 keys and 4 values"):
        flash_causal_attention(*(torch.zeros(n, 2) for n in (4, 3, 4)))
