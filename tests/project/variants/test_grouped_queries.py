"""Grouped-query attention: fewer heads of keys and values than of queries."""

import dataclasses

import pytest
import torch
from einops import repeat

from cs_basics.attention import CausalSelfAttention, MergedCausalSelfAttention
from cs_basics.fast.decoding import generate_batch
from cs_basics.functional import cross_entropy
from cs_basics.generate import generate, generate_uncached
from cs_basics.rope import RotaryPositionalEmbedding
from cs_basics.run.config import PRESETS, Architecture
from cs_basics.run.folder import build_model
from cs_basics.study import accounting
from cs_basics.transformer import TransformerLM

D_MODEL, NUM_HEADS = 32, 4
ROPE = RotaryPositionalEmbedding(10_000.0, D_MODEL // NUM_HEADS, 16)


def attention(num_kv_heads, kind=CausalSelfAttention, **choices):
    torch.manual_seed(0)
    return kind(D_MODEL, NUM_HEADS, ROPE, num_kv_heads=num_kv_heads, **choices)


def model_with(num_kv_heads, **choices):
    torch.manual_seed(0)
    architecture = Architecture(num_kv_heads=num_kv_heads, **choices)
    return TransformerLM(50, 16, D_MODEL, 2, NUM_HEADS, 48, architecture=architecture)


@pytest.mark.parametrize("is_tiled", [False, True])
@pytest.mark.parametrize("num_kv_heads", [1, 2])
def test_it_is_attention_with_every_head_of_keys_and_values_repeated(num_kv_heads, is_tiled):
    grouped = attention(num_kv_heads, is_tiled=is_tiled)
    state = grouped.state_dict()
    for name in ("k_proj.weight", "v_proj.weight"):
        assert state[name].shape == (num_kv_heads * 8, D_MODEL)
        state[name] = repeat(
            state[name], "(heads d) i -> (heads group d) i", d=8, group=NUM_HEADS // num_kv_heads
        )
    full = attention(None)
    full.load_state_dict(state)
    x = torch.randn(2, 9, D_MODEL)
    torch.testing.assert_close(grouped(x), full(x), rtol=0, atol=1e-6)


def test_as_many_heads_of_keys_as_of_queries_is_the_default():
    x = torch.randn(1, 5, D_MODEL)
    assert torch.equal(attention(NUM_HEADS)(x), attention(None)(x))


def test_gradients_of_a_shared_head_are_the_sum_over_those_that_read_it():
    attention_ = attention(1).double()
    x = torch.randn(1, 5, D_MODEL, dtype=torch.float64)
    weight = attention_.k_proj.weight.detach()

    def run(weight):
        return torch.func.functional_call(attention_, {"k_proj.weight": weight}, x)

    assert torch.autograd.gradcheck(run, weight.requires_grad_())


def test_the_merged_form_agrees_and_saves_the_same_names():
    plain, merged = attention(2), attention(2, MergedCausalSelfAttention)
    assert set(merged.state_dict()) == set(plain.state_dict())
    merged.load_state_dict(plain.state_dict())
    x = torch.randn(2, 6, D_MODEL)
    torch.testing.assert_close(merged(x), plain(x), rtol=0, atol=1e-6)


@pytest.mark.parametrize("choices", [{}, {"merge_projections": True}, {"qk_norm": True}], ids=str)
def test_cached_and_batched_decoding_write_what_the_definition_writes(choices):
    model = model_with(2, **choices)
    caches = model.empty_caches(3)
    assert caches[0].keys.shape == (3, 2, 16, D_MODEL // NUM_HEADS)
    expected = list(generate_uncached(model, [1, 2, 3], 30))
    assert list(generate(model, [1, 2, 3], 30)) == expected
    assert [row[0] for row in generate_batch(model, [[1, 2, 3], [4]], 30)] == expected


@pytest.mark.parametrize("num_kv_heads", [1, 2, 4])
@pytest.mark.parametrize("qk_norm", [False, True])
def test_accounting_counts_the_smaller_projections_and_cache(num_kv_heads, qk_norm):
    model = model_with(num_kv_heads, qk_norm=qk_norm)
    shape = accounting.ModelShape(
        vocab_size=50,
        context_length=16,
        d_model=D_MODEL,
        num_layers=2,
        num_heads=NUM_HEADS,
        d_ff=48,
        num_kv_heads=num_kv_heads,
        qk_norm=qk_norm,
    )
    real = sum(parameter.numel() for parameter in model.parameters())
    assert accounting.total(accounting.parameters(shape)) == real
    cached = sum(c.keys.nbytes + c.values.nbytes for c in model.empty_caches(1))
    assert accounting.inference_memory(shape)["KV cache"] == cached


def test_a_model_with_shared_heads_learns():
    config = dataclasses.replace(PRESETS["debug"][1], num_kv_heads=2, tile_attention=True)
    model = build_model(config)
    assert model.layers[0].attn.num_kv_heads == 2
    ids = torch.randint(50, (2, 17), generator=torch.Generator().manual_seed(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(5):
        loss = cross_entropy(model(ids[:, :-1]), ids[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.5


@pytest.mark.parametrize("wrong", [0, 3, 8])
def test_heads_that_cannot_be_shared_out_are_refused(wrong):
    message = f"num_kv_heads={wrong} must be a divisor of num_heads=4"
    with pytest.raises(ValueError, match=message):
        attention(wrong)
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PRESETS["debug"][1], num_kv_heads=wrong)


def test_the_norms_use_the_eps_of_the_architecture():
    model = model_with(2, norm_eps=0.25)
    assert {model.ln_final.eps, model.layers[1].ln1.eps, model.layers[1].ln2.eps} == {0.25}
    with pytest.raises(ValueError, match="norm_eps=-1 must be 0 or greater"):
        Architecture(norm_eps=-1)
