"""Twins of optimizers: the definition's numbers, compiled a few times, not for every weight."""

import copy

import pytest
import torch

from cs_basics.fast import accelerate, compilation
from cs_basics.fast.adamw import update_in_place
from cs_basics.optim import AdamW
from cs_basics.variants.muon import Muon

CPU = torch.device("cpu")
SHAPES = [(7,), (3, 5), (16, 4), (), (1, 6), (33,), (5, 16), (40, 2), (11, 3), (12, 12)]


def both(kind=AdamW, dtype=torch.float32, shapes=SHAPES):
    """The definition and its twin, each with two groups of the same weights."""
    torch.manual_seed(0)
    weights = [torch.randn(shape, dtype=dtype) for shape in shapes]
    optimizers = []
    for one in (kind, accelerate(kind)):
        own = [torch.nn.Parameter(weight.clone()) for weight in weights]
        groups = [{"params": own[:2]}, {"params": own[2:], "lr": 3e-2, "betas": (0.7, 0.95)}]
        if kind is Muon:
            groups = [
                {"params": [p for p in own if (p.ndim == 2) == has_rows]} for has_rows in (0, 1)
            ]
            groups[1] |= {"momentum": 0.9, "num_steps": 4, "lr": 3e-2}
        optimizers.append(one(groups, lr=1e-2, weight_decay=0.3, eps=1e-6))
    return optimizers


def parameters(optimizer):
    return [p for group in optimizer.param_groups for p in group["params"]]


def step_both(optimizers, num_steps, seed=1):
    """Make steps with the same gradients; in some steps a weight has none, and rates change.

    The closure of a step is called once, with gradients.
    """
    generator, asked = torch.Generator().manual_seed(seed), []

    def closure():
        asked.append(torch.is_grad_enabled())
        return "loss"

    for step in range(num_steps):
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = 1e-2 / (step + 1)
        for number, pair in enumerate(zip(*map(parameters, optimizers), strict=True)):
            gradient = torch.randn(pair[0].shape, generator=generator)
            for p in pair:
                p.grad = None if number == step else gradient.to(p.dtype)
        for optimizer in optimizers:
            assert optimizer.step(closure) == "loss"
    assert asked == [True] * 2 * num_steps


def assert_same(optimizers, **tolerances):
    for one, other in zip(*map(parameters, optimizers), strict=True):
        torch.testing.assert_close(one, other, **tolerances)
    states = [optimizer.state_dict() for optimizer in optimizers]
    torch.testing.assert_close(states[0]["state"], states[1]["state"], **tolerances)
    assert states[0]["param_groups"] == states[1]["param_groups"]


def exchange_states(optimizers):
    """Let each go on with what the other has saved."""
    states = [copy.deepcopy(optimizer.state_dict()) for optimizer in optimizers]
    for optimizer, state in zip(optimizers, reversed(states), strict=True):
        optimizer.load_state_dict(state)


@pytest.mark.parametrize(
    ("kind", "dtype", "tolerance"),
    [(AdamW, torch.float32, 1e-6), (AdamW, torch.float64, 1e-13), (Muon, torch.float32, 1e-4)],
)
@pytest.mark.parametrize("is_for_gpu", [False, True])
def test_the_lines_of_the_update_together_or_one_by_one_are_those_of_the_definition(
    kind, dtype, tolerance, is_for_gpu
):
    optimizers = both(kind, dtype)
    if is_for_gpu:
        optimizers[1].compile(torch.device("cuda"))
        for optimizer in optimizers:
            optimizer.step()  # No weight has a gradient yet.
    else:
        optimizers[1].use(update_in_place)
    for num_steps in (7, 2):
        step_both(optimizers, num_steps, seed=num_steps)
        assert_same(optimizers, rtol=tolerance, atol=tolerance)
        exchange_states(optimizers)


def test_without_a_compiler_it_is_the_definition(monkeypatch, caplog):
    monkeypatch.setattr(compilation, "reason_not_to_compile", lambda _: "no compiler")
    optimizers = both()
    optimizers[1].compile(CPU)
    assert "no compiler" in caplog.text
    step_both(optimizers, 3)
    assert_same(optimizers, rtol=0, atol=0)


@pytest.mark.compile
@pytest.mark.needs("g++")
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_compiled_it_gives_the_same_numbers_and_is_compiled_for_kinds_of_shapes_only():
    from torch._dynamo.utils import counters

    torch.compiler.reset()
    counters.clear()
    optimizers = both(shapes=[(7,), (3, 5), (16, 4), (33,), (12, 12)])
    optimizers[1].compile(CPU)
    step_both(optimizers, 3)
    num_graphs = counters["stats"]["unique_graphs"]
    assert num_graphs <= 2, counters  # Vectors and matrices.
    step_both(optimizers, 4, seed=2)
    assert counters["stats"]["unique_graphs"] == num_graphs, counters
    assert_same(optimizers, rtol=1e-5, atol=1e-6)
    exchange_states(optimizers)
    step_both(optimizers, 2, seed=3)
    assert_same(optimizers, rtol=1e-5, atol=1e-6)
