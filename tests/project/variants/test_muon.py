"""Muon: what it makes of singular values, whose updates it makes, and in bfloat16."""

import numpy as np
import pytest
import torch

from cs_basics.fast.muon import orthogonalised_in_place
from cs_basics.run.optimizer import make_optimizer
from cs_basics.variants import muon
from cs_basics.variants.model import Transformer
from cs_basics.variants.muon import Muon, best_quintic, minimax, orthogonalised


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3), (2, 4, 6)])
def test_each_singular_value_gets_the_polynomials_and_the_vectors_stay(shape):
    torch.manual_seed(0)
    x, coefficients = torch.randn(shape, dtype=torch.float64), [(2.0, -1.5, 0.5), (3.0, -3.2, 1.2)]
    u, values, vh = torch.linalg.svd(x, full_matrices=False)
    values = values / (1.01 * values.norm(dim=-1, keepdim=True) + 1e-7)
    for a, b, c in coefficients:
        values = a * values + b * values**3 + c * values**5
    expected = u @ torch.diag_embed(values) @ vh
    torch.testing.assert_close(orthogonalised(x, coefficients), expected)


@pytest.mark.parametrize(("low", "high"), [(0.001, 1.0), (0.1, 1.9), (0.7, 1.3)])
def test_no_quintic_is_closer_to_1(low, high):
    # Chebyshev: a best approximation of three coefficients reaches its largest error at four
    # points, with alternating signs, and no other one does.
    a, b, c, error = best_quintic(low, high)
    x = np.linspace(low, high, 100_001)
    misses = 1 - (a * x + b * x**3 + c * x**5)
    assert np.abs(misses).max() == pytest.approx(error, rel=1e-6)
    reached = np.sign(misses[np.abs(misses) > error * (1 - 1e-6)])
    assert (np.diff(reached) != 0).sum() == 3


@pytest.mark.parametrize(("num_steps", "miss"), [(2, 0.372), (3, 0.29), (4, 0.21), (5, 0.14)])
def test_all_that_is_large_enough_ends_near_1(num_steps, miss):
    values = np.linspace(10 ** (-(num_steps + 1) / 2), 1, 10_001)
    for a, b, c in minimax(num_steps):
        values = a * values + b * values**3 + c * values**5
    assert np.abs(values - 1).max() < miss


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this PyTorch has no Muon")
def test_it_makes_the_updates_of_pytorch(monkeypatch):
    # PyTorch multiplies in bfloat16 and does not divide by 1.01, hence the tolerance; without
    # Nesterov's look ahead the difference is 0.2 and more.
    monkeypatch.setattr(muon, "minimax", lambda count: [(3.4445, -4.775, 2.0315)] * count)
    torch.manual_seed(0)
    starts = [torch.randn(shape) for shape in [(24, 24), (16, 40), (40, 16)]]
    ours, theirs = ([torch.nn.Parameter(start.clone()) for start in starts] for _ in range(2))
    settings = {"lr": 0.02, "weight_decay": 0.1, "momentum": 0.95}
    optimizers = [
        Muon([{"params": ours, "num_steps": 5, **settings}]),
        torch.optim.Muon(theirs, **settings, adjust_lr_fn="match_rms_adamw"),
    ]
    for _ in range(6):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = torch.randn(one.shape)
            other.grad = one.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for one, other, start in zip(ours, theirs, starts, strict=True):
        assert (one - other).norm() < 0.04 * (one - start).norm()


@pytest.mark.parametrize("num_steps", range(1, 9))
def test_in_bfloat16_nothing_diverges(num_steps):
    # Of so many small matrices some have singular values at the very ends of the intervals.
    torch.manual_seed(0)
    x = torch.randn(2000, 4, 5).bfloat16()
    result = orthogonalised_in_place(x, minimax(num_steps)).float()
    assert torch.linalg.matrix_norm(result, 2).max() < (1.45 if num_steps > 1 else 1.9)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"params": [torch.nn.Parameter(torch.ones(3))]}, r"matrices, not \(3,\)"),
     ({"momentum": 1.0}, "momentum=1.0 must be at least 0 and below 1"),
     ({"momentum": -0.1}, "momentum=-0.1 must be")],
)  # fmt: skip
def test_vectors_and_other_momenta_are_refused(wrong, message):
    group = {"params": [torch.nn.Parameter(torch.ones(3, 2))], "momentum": 0.9, "num_steps": 3}
    with pytest.raises(ValueError, match=message):
        Muon([group | wrong])


def test_it_gets_the_matrices_of_the_blocks_and_adamw_all_others(tiny_config):
    choices = {"qk_norm": True, "head_bias": True, "weight_decay": 0.3}
    config = tiny_config.replace(optimizer="muon", **choices)
    model = Transformer(config.model)
    optimizer = make_optimizer(model, config)
    name_of = {p: name for name, p in model.named_parameters()}
    held = [(name_of[p], g["weight_decay"]) for g in optimizer.param_groups for p in g["params"]]
    assert sorted(name for name, _ in held) == sorted(name_of.values())
    assert [name for name, decay in held if not decay] == ["lm_head.bias"]
    (group,) = optimizer.matrix_groups()
    names = {name_of[p] for p in group["params"]}
    layers = range(config.model.num_layers)
    parts = ("attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.output_proj")
    parts += ("ffn.w1", "ffn.w2", "ffn.w3")
    assert names == {f"layers.{layer}.{part}.weight" for layer in layers for part in parts}
    assert group["lr_ratio"] == 3.0
    assert group["weight_decay"] == config.optim.weight_decay / 3
