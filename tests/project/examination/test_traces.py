"""No probe leaves a trace: what comes after it sees the same, whatever a submission shares."""

import importlib.util
import itertools
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from probes.devices import follow
from probes.model import backward, forward
from probes.modules import construction
from torch import nn

from cs_basics.layers import Linear

ADAPTERS = Path(__file__).parents[2] / "adapters.py"
ROPE, LINEAR = "run_rope", "run_linear"


class SharedTable(nn.Module):
    """Angles and mask lie in the class, for all that ever ask, on the device of the last call."""

    angles: torch.Tensor | None = None
    mask: torch.Tensor | None = None

    def forward(self, x):
        here = type(self)
        if here.angles is None:
            here.angles = torch.linspace(0, 1, x.shape[-1])
            here.mask = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).tril()
        here.angles, here.mask = here.angles.to(x.device), here.mask.to(x.device)
        return here.mask.to(x.dtype) @ (x * here.angles[: x.shape[-1]])


def sharing():
    """The book's adapters, with one module for all calls that construct it alike."""
    spec = importlib.util.spec_from_file_location("sharing", ADAPTERS)
    adapters = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(adapters)
    shared = cache(Linear)

    def run_linear(d_in, d_out, weights, in_features):
        linear = shared(d_in, d_out, device=weights.device, dtype=weights.dtype)
        linear.load_state_dict({"weight": weights})
        return linear(in_features)

    adapters.run_linear = run_linear
    SharedTable.angles = SharedTable.mask = None
    rope = SharedTable()
    adapters.run_rope = lambda in_query_or_key, **_: rope(in_query_or_key)
    return adapters


def case(function, seed):
    draw = np.random.default_rng(seed).standard_normal
    x = draw((5, 6)).astype(np.float32)
    if function == ROPE:
        return {"in_query_or_key": x}
    weights = draw((4, 6)).astype(np.float32)
    return {"d_in": 6, "d_out": 4, "weights": weights, "in_features": x}


def both(probe):
    def ask(adapters):
        return [probe(adapters, name, case(name, 0)) for name in (ROPE, LINEAR)]

    return ask


def gradients(adapters):
    given, upstream = case(LINEAR, 1), np.ones((5, 4))
    return backward(adapters, LINEAR, given, upstream, ["in_features"], ["weights"])


def initial_weights_that_are_not(adapters):
    modules = construction(adapters, LINEAR, case(LINEAR, 2))
    loaded = [case(LINEAR, seed)["weights"] for seed in range(3)]
    held = [one["values"] for module in modules for one in module["parameters"]]
    return [values for values in held if any(np.array_equal(values, one) for one in loaded)]


PROBES = {
    "forward": both(forward),
    "backward": gradients,
    "follow": both(follow),
    "construction": initial_weights_that_are_not,
}


@pytest.mark.parametrize(("before", "after"), [*itertools.product(PROBES, PROBES)])
def test_a_probe_leaves_no_trace(before, after):
    alone = PROBES[after](sharing())
    shared = sharing()
    PROBES[before](shared)
    seen = PROBES[after](shared)
    np.testing.assert_equal(seen, alone)
