"""Value residual against a model written out in NumPy, and that it trains like the rest."""

import numpy as np
import pytest
import torch
from twin import fast_twin

from cs_basics.functional import cross_entropy
from cs_basics.run.activation_checkpointing import checkpoint_blocks
from cs_basics.run.distributed import World
from cs_basics.run.layout import check_layout
from cs_basics.run.model_config import ModelConfig
from cs_basics.variants.dropout import Dropout
from cs_basics.variants.model import Transformer

SIZES = {
    "vocab_size": 19, "context_length": 8, "d_model": 16, "d_ff": 24, "num_layers": 3,
    "num_heads": 2,
}  # fmt: skip
IDS = torch.arange(24).reshape(3, 8) * 7 % 19


def model_of(dtype=None, **changes):
    """A model in which every scale and every gain differs from what it begins with."""
    torch.manual_seed(3)
    model = Transformer(ModelConfig(**SIZES | {"value_residual": True} | changes), dtype=dtype)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            torch.nn.init.trunc_normal_(parameter, mean=0.8, std=0.3)
    return model


def logits_of(state, ids, num_kv_heads):
    """The logits of one text, head by head and position by position, in NumPy."""
    weight = {name: value.numpy() for name, value in state.items()}
    num_heads, d_head = 2, 8

    def norm(x, name):
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-5) * weight[f"{name}.weight"]

    def turned(vector, position):
        """Each pair (2 i, 2 i + 1) as a complex number, times e^(i angle)."""
        pairs = vector[0::2] + 1j * vector[1::2]
        angles = position * 10_000.0 ** (-np.arange(d_head // 2) * 2 / d_head)
        pairs = pairs * np.exp(1j * angles)
        return np.stack([pairs.real, pairs.imag], axis=-1).ravel()

    x = weight["token_embeddings.weight"][ids]
    first = None
    for layer in range(3):
        name = f"layers.{layer}"
        normed = norm(x, f"{name}.ln1")
        q, k, v = (normed @ weight[f"{name}.attn.{part}_proj.weight"].T for part in "qkv")
        if first is None:
            first = v
        else:
            scales = weight[f"{name}.value_scales"]
            v = scales[0] * first + scales[1] * v
        found = np.zeros((len(ids), num_heads * d_head))
        for head in range(num_heads):
            of_q = slice(head * d_head, (head + 1) * d_head)
            shared = head * num_kv_heads // num_heads * d_head
            of_kv = slice(shared, shared + d_head)
            for t in range(len(ids)):
                query = turned(q[t, of_q], t)
                scores = np.array([turned(k[s, of_kv], s) @ query for s in range(t + 1)])
                exps = np.exp(scores / np.sqrt(d_head))
                found[t, of_q] = exps / exps.sum() @ v[: t + 1, of_kv]
        x = x + found @ weight[f"{name}.attn.output_proj.weight"].T
        normed = norm(x, f"{name}.ln2")
        gate, up = (normed @ weight[f"{name}.ffn.{part}.weight"].T for part in ("w1", "w3"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ weight[f"{name}.ffn.w2.weight"].T
    return norm(x, "ln_final") @ weight["lm_head.weight"].T


@pytest.mark.parametrize("num_kv_heads", [1, 2])
def test_it_mixes_the_values_of_the_first_block_into_those_of_the_others(num_kv_heads):
    model = model_of(torch.float64, num_kv_heads=num_kv_heads)
    found = model(IDS).detach().numpy()
    for text, logits in zip(IDS.numpy(), found, strict=True):
        expected = logits_of(model.state_dict(), text, num_kv_heads)
        # The book's table of angles is float32.
        np.testing.assert_allclose(logits, expected, rtol=1e-6, atol=1e-6)


def test_the_scales_have_the_gradient_of_small_steps():
    model = model_of(torch.float64)

    def loss():
        return cross_entropy(model(IDS), IDS.flip(-1))

    loss().backward()
    for block in list(model.layers)[1:]:
        scales = block.value_scales
        for place in range(2):
            ends = []
            for step in (1e-5, -1e-5):
                with torch.no_grad():
                    scales[place] += step
                    ends.append(loss().item())
                    scales[place] -= step
            slope = (ends[0] - ends[1]) / 2e-5
            assert scales.grad[place].item() == pytest.approx(slope, rel=1e-5, abs=1e-9)


def test_the_scales_begin_at_a_half_and_the_first_block_has_none():
    model = Transformer(ModelConfig(**SIZES, value_residual=True))
    plain = Transformer(ModelConfig(**SIZES))
    added = model.state_dict().keys() - plain.state_dict().keys()
    assert added == {"layers.1.value_scales", "layers.2.value_scales"}
    assert all(model.state_dict()[name].tolist() == [0.5, 0.5] for name in added)
    assert model.state_dict().keys() > plain.state_dict().keys()


def test_with_the_scales_0_and_1_it_is_the_model_without():
    model, plain = model_of(), Transformer(ModelConfig(**SIZES))
    for block in list(model.layers)[1:]:
        block.value_scales.data.copy_(torch.tensor([0.0, 1.0]))
    plain.load_state_dict(model.state_dict(), strict=False)
    torch.testing.assert_close(model(IDS), plain(IDS))


def test_one_block_is_the_first_and_the_last():
    model, plain = model_of(num_layers=1), Transformer(ModelConfig(**SIZES | {"num_layers": 1}))
    plain.load_state_dict(model.state_dict())
    torch.testing.assert_close(model(IDS), plain(IDS))


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_twins_and_checkpointed_activations_give_the_same_gradients(is_checkpointed):
    results = []
    for model in (model_of(), fast_twin(model_of())):
        if is_checkpointed and results:
            checkpoint_blocks(model)
        Dropout(model, 0.5, (3, 8, 16)).draw(5)
        loss = cross_entropy(model(IDS), IDS.flip(-1))
        loss.backward()
        results.append([loss.detach(), *(p.grad for p in model.parameters())])
    for found, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("placement", ["post", "sandwich", "none"])
def test_other_placements_are_refused(placement):
    with pytest.raises(ValueError, match=f"needs placement=pre, not placement={placement}"):
        ModelConfig(value_residual=True, placement=placement)


@pytest.mark.parametrize("name", ["value_residual", "head_bias"])
def test_what_tensor_parallelism_cannot_share_out_is_refused(tiny_config, name):
    config = tiny_config.replace(**{name: True})
    flag = name.replace("_", "-")
    with pytest.raises(ValueError, match=f"share out --{flag}: use ddp or fsdp, or --no-{flag}"):
        check_layout(config.replace(parallel="tp"), World(0, 2))
    check_layout(config.replace(parallel="fsdp"), World(0, 2))
    check_layout(config.replace(parallel="tp"), World(0, 1))
