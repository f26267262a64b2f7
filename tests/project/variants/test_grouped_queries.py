"""Grouped-query attention: fewer heads of keys and values than of queries."""

import pytest
import torch
from einops import repeat

from cs_basics.attention import CausalSelfAttention
from cs_basics.rope import RotaryPositionalEmbedding
from cs_basics.variants.attention import GroupedQueryAttention

D_MODEL, NUM_HEADS = 32, 4
ROPE = RotaryPositionalEmbedding(10_000.0, D_MODEL // NUM_HEADS, 16)


def attention(num_kv_heads, **choices):
    torch.manual_seed(0)
    return GroupedQueryAttention(D_MODEL, NUM_HEADS, ROPE, num_kv_heads=num_kv_heads, **choices)


@pytest.mark.parametrize("positions", [None, torch.tensor([3, 1, 4, 1, 5, 9, 2, 6, 5])], ids=str)
@pytest.mark.parametrize("num_kv_heads", [1, 2, 4])
def test_it_is_attention_with_every_head_of_keys_and_values_repeated(num_kv_heads, positions):
    grouped = attention(num_kv_heads)
    state = grouped.state_dict()
    for name in ("k_proj.weight", "v_proj.weight"):
        assert state[name].shape == (num_kv_heads * 8, D_MODEL)
        state[name] = repeat(
            state[name], "(heads d) i -> (heads group d) i", d=8, group=NUM_HEADS // num_kv_heads
        )
    full = CausalSelfAttention(D_MODEL, NUM_HEADS, ROPE)
    full.load_state_dict(state)
    x = torch.randn(2, 9, D_MODEL)
    torch.testing.assert_close(grouped(x, positions), full(x, positions), rtol=0, atol=1e-6)


def test_as_many_heads_of_keys_as_of_queries_is_the_default():
    x = torch.randn(1, 5, D_MODEL)
    assert torch.equal(attention(NUM_HEADS)(x), attention(None)(x))


def test_gradients_of_a_shared_head_are_the_sum_over_those_that_read_it():
    attention_ = attention(1).double()
    x = torch.randn(1, 5, D_MODEL, dtype=torch.float64)
    weight = attention_.k_proj.weight.detach()

    def run(weight):
        return torch.func.functional_call(attention_, {"k_proj.weight": weight}, x)

    assert torch.autograd.gradcheck(run, weight.requires_grad_(), fast_mode=True)


def test_heads_of_the_size_that_they_have_anyway_change_nothing():
    x = torch.randn(1, 5, D_MODEL)
    assert torch.equal(attention(2, d_head=8)(x), attention(2)(x))


def test_the_size_of_a_head_is_free_of_that_of_the_stream():
    torch.manual_seed(0)
    rope = RotaryPositionalEmbedding(10_000.0, 20, 16)
    wide = GroupedQueryAttention(D_MODEL, 3, rope, num_kv_heads=1, d_head=20)
    shapes = {name: tuple(p.shape) for name, p in wide.named_parameters()}
    assert shapes == {
        "q_proj.weight": (60, 32), "k_proj.weight": (20, 32), "v_proj.weight": (20, 32),
        "output_proj.weight": (32, 60),
    }  # fmt: skip
    x = torch.randn(2, 9, D_MODEL)
    (q, k, v) = (x @ p.weight.T for p in (wide.q_proj, wide.k_proj, wide.v_proj))
    places = torch.arange(9)
    hidden = places > places.unsqueeze(-1)
    heads = []
    for head in q.split(20, dim=-1):
        scores = rope(head, places) @ rope(k, places).mT / 20**0.5
        heads.append(scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ v)
    expected = torch.cat(heads, dim=-1) @ wide.output_proj.weight.T
    torch.testing.assert_close(wide(x), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("wrong", [0, 3, 8])
def test_heads_that_cannot_be_shared_out_are_refused(wrong):
    with pytest.raises(ValueError, match=f"num_kv_heads={wrong} must be a divisor of num_heads=4"):
        attention(wrong)
