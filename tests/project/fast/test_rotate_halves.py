"""Rotation of pairs that lie half a head apart: the rotation of neighbours, in another order."""

import pytest
import torch

from cs_basics.attention import CausalSelfAttention, MergedCausalSelfAttention
from cs_basics.rope import RotaryPositionalEmbedding, halves_order


@pytest.mark.parametrize("d_head", [2, 4, 6, 32])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_halves_turn_as_neighbours_do_and_so_do_their_gradients(d_head, dtype):
    rope = RotaryPositionalEmbedding(100.0, d_head, 9)
    order = halves_order(d_head, d_head)
    x = torch.randn(2, 3, 5, d_head, dtype=dtype, requires_grad=True)
    positions = torch.tensor([0, 8, 3, 3, 1])
    expected = rope(x, positions)
    turned = rope.rotate_halves(x[..., order], positions)[..., order.argsort()]
    assert turned.dtype == dtype
    assert torch.equal(turned, expected)
    weights = torch.randn(x.shape, dtype=dtype)
    ours, theirs = (torch.autograd.grad((y * weights).sum(), x) for y in (turned, expected))
    torch.testing.assert_close(ours, theirs)


def test_the_order_keeps_heads_apart():
    assert halves_order(8, 4).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


@pytest.mark.parametrize("qk_norm", [False, True])
def test_merged_attention_gives_the_plain_results_and_the_gradients_of_the_separate_rows(qk_norm):
    torch.manual_seed(0)
    rope = RotaryPositionalEmbedding(100.0, 8, 12)
    plain, merged = (
        form(32, 4, rope, dtype=torch.float64, qk_norm=qk_norm)
        for form in (CausalSelfAttention, MergedCausalSelfAttention)
    )
    assert merged.has_halves is not qk_norm
    merged.load_state_dict(plain.state_dict())
    x = torch.randn(2, 12, 32, dtype=torch.float64)
    weights = torch.randn(x.shape, dtype=x.dtype)
    for form in (plain, merged):
        (form(x) * weights).sum().backward()
    torch.testing.assert_close(merged(x), plain(x))
    # The gradients, read as if they were the weights, come back under the separate names.
    with torch.no_grad():
        merged.qkv_proj.weight.copy_(merged.qkv_proj.weight.grad)
    state = merged.state_dict()
    for name in ("q_proj", "k_proj", "v_proj"):
        grad = getattr(plain, name).weight.grad
        torch.testing.assert_close(state[f"{name}.weight"], grad)
