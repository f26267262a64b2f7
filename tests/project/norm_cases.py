"""Every norm beside the oracle that knows its answers, and inputs for it."""

from dataclasses import dataclass
from typing import Any

import norm_oracles as oracles
import numpy as np
import torch

from cs_basics.norms import LayerNorm, RMSNorm
from cs_basics.variants.norms import (
    GatedRMSNorm,
    GemmaRMSNorm,
    GroupRMSNorm,
    LlamaRMSNorm,
    PartialRMSNorm,
)

D_MODEL = 24
# Of the largest value of a result. The low types: two roundings, of the result and (in the order
# of Llama) of what the gain multiplies. The wide types: the roundings of a handful of operations.
TOLERANCE = {
    torch.float16: 2 * 2.0**-11,
    torch.bfloat16: 2 * 2.0**-8,
    torch.float32: 1e-6,
    torch.float64: 1e-14,
}


@dataclass
class Case:
    """A norm, and the oracle that knows the answer."""

    build: Any
    oracle: Any
    options: dict

    def answer(self, norm, *inputs):
        parameters = {name: to_numpy(value) for name, value in norm.named_parameters()}
        return self.oracle(*map(to_numpy, inputs), **parameters, **self.options)


def without_bias(x, *, weight):
    return oracles.layer_norm(x, weight=weight, bias=0.0)


def case(build, oracle, build_options=None, **options):
    return Case(lambda **k: build(D_MODEL, **(build_options or {}), **k), oracle, options)


BOOK = {
    "rmsnorm": case(RMSNorm, oracles.rms_norm),
    "layernorm": case(LayerNorm, oracles.layer_norm),
    "layernorm-no-bias": case(LayerNorm, without_bias, {"bias": False}),
}
VARIANTS = {
    "llama": case(LlamaRMSNorm, oracles.rms_norm),
    "gemma": case(GemmaRMSNorm, oracles.gemma_rms_norm),
    "partial": case(PartialRMSNorm, oracles.partial_rms_norm, num_measured=2),
    "partial-8th": case(
        PartialRMSNorm, oracles.partial_rms_norm, {"fraction": 1 / 8}, num_measured=3
    ),
    "group": case(GroupRMSNorm, oracles.group_rms_norm, {"num_groups": 4}, num_groups=4),
    "gated": case(GatedRMSNorm, oracles.gated_rms_norm, gate_first=False),
    "gate-first": case(GatedRMSNorm, oracles.gated_rms_norm, {"gate_first": True}, gate_first=True),
}
CASES = {**BOOK, **VARIANTS}


def to_numpy(tensor):
    return tensor.detach().double().numpy()


def build(name, dtype=torch.float64, seed=0):
    """Build a norm whose parameters are not those of the start."""
    norm = CASES[name].build(dtype=dtype)
    generator = torch.Generator().manual_seed(seed)
    for parameter in norm.parameters():
        parameter.data.uniform_(0.5, 2.0, generator=generator)
    return norm


def inputs_for(name, leading, dtype=torch.float64, seed=0):
    """Return the inputs of a norm: x, and a gate where it takes one."""
    generator = torch.Generator().manual_seed(seed)
    num_inputs = 2 if "gate" in name else 1
    shape = (num_inputs, *leading, D_MODEL)
    return list((0.5 + torch.randn(shape, generator=generator)).to(dtype))


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double()


def gradients_of(norm, inputs, cotangent):
    """Return the gradients of sum(norm(inputs) * cotangent) for inputs, then parameters."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    return torch.autograd.grad(norm(*inputs), [*inputs, *norm.parameters()], cotangent)


def assert_close(result, expected, tolerance):
    np.testing.assert_allclose(
        to_numpy(result), expected, rtol=0, atol=tolerance * np.abs(expected).max(initial=0.0)
    )
