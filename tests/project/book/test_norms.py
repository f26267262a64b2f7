"""LayerNorm against PyTorch's, and what the examination does not ask of RMSNorm."""

import math

import pytest
import torch
from torch import nn

from cs_basics.norms import LayerNorm, RMSNorm

D_MODEL = 24


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-13), (torch.float32, 2e-6), (torch.bfloat16, 2.0**-8)],
    ids=str,
)
def test_layernorm_has_the_values_and_the_gradients_of_pytorchs_rounded_once(
    dtype, tolerance, bias
):
    torch.manual_seed(0)
    ours = LayerNorm(D_MODEL, eps=1e-2, bias=bias, dtype=dtype)
    theirs = nn.LayerNorm(D_MODEL, eps=1e-2, bias=bias, dtype=torch.float64)
    for parameter in ours.parameters():
        nn.init.uniform_(parameter, 0.5, 2)
    theirs.load_state_dict(ours.state_dict())
    x, weights = torch.randn(2, 5, D_MODEL).to(dtype), torch.randn(5, D_MODEL).to(dtype)
    found = []
    for norm, leaf in ((ours, x.clone()), (theirs, x.double())):
        leaf.requires_grad_()
        result = norm(leaf)
        leaves = [leaf, *norm.parameters()]
        cotangent = weights.to(result.dtype).expand_as(result)
        found.append([result.detach(), *torch.autograd.grad(result, leaves, cotangent)])
    for one, exact in zip(*found, strict=True):
        assert one.dtype == dtype
        limit = 2 * tolerance * float(exact.abs().max())
        torch.testing.assert_close(one.double(), exact, rtol=0, atol=limit)


@pytest.mark.parametrize(
    ("kind", "printed"),
    [(RMSNorm, "d_model=24, eps=0.5"), (LayerNorm, "d_model=24, eps=0.5, bias=True")],
)
def test_a_norm_hides_no_nan_names_its_choices_and_refuses_an_eps_below_0(kind, printed):
    x = torch.ones(3, D_MODEL).cumsum(-1)
    x[1, 2] = math.nan
    assert kind(D_MODEL)(x).isnan().all(-1).tolist() == [False, True, False]
    assert kind(D_MODEL, eps=0.0)(x)[0].isfinite().all()
    assert printed in repr(kind(24, eps=0.5))
    for eps in (-1e-5, math.nan):
        with pytest.raises(ValueError, match="must be 0 or greater"):
            kind(D_MODEL, eps=eps)
