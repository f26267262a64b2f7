"""What each form of causal attention promises: the definition's values and gradients, anywhere."""

import torch

from cs_basics.functional import scaled_dot_product_attention

ROUNDINGS = 4  # Of operands, weights, gradients of scores and the result, each by half an eps.


def random(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def case(shape, dtype, scale=1.0):
    """Return queries, keys, values and a gradient of the output."""
    return [(scale * random(*shape, seed=seed)).to(dtype) for seed in range(4)]


def definition(q, k, v):
    is_visible = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).tril()
    return scaled_dot_product_attention(q, k, v, is_visible)


def results(attend, tensors, device="cpu", dtype=None):
    """Return the output and the gradients of what it is computed from."""
    *inputs, grad = (x.to(device, dtype or x.dtype) for x in tensors)
    leaves = [x.requires_grad_() for x in inputs]
    output = attend(*leaves)
    return [x.detach().cpu() for x in (output, *torch.autograd.grad(output, leaves, grad))]


def check_agreement(attend, shape, dtype=torch.float32, scale=1.0, device="cpu"):
    tensors = case(shape, dtype, scale)
    wide = torch.promote_types(dtype, torch.float32)
    tolerance = max(ROUNDINGS * torch.finfo(dtype).eps / 2, 25 * torch.finfo(wide).eps * scale**2)
    names = ("output", "grad_q", "grad_k", "grad_v")
    ours = results(attend, tensors, device)
    exact = results(definition, tensors, dtype=torch.float64)
    for name, one, other in zip(names, ours, exact, strict=True):
        assert one.dtype == dtype
        assert one.shape == other.shape
        if other.numel():
            # NaN is not within the limit either. A gradient of one position is zero.
            error, limit = (one - other).abs().max(), tolerance * max(other.abs().max(), 1.0)
            assert error <= limit, f"{name} {shape} {dtype} {scale}: {error} is over {limit}"


def check_extremes(attend, device="cpu"):
    """Demand that scores of +-10,000 do not overflow: their softmax is a choice of one key."""
    signs = random(64, 16, seed=0).sign()
    q, v = 50.0 * signs, random(64, 16, seed=1)  # No other row is the same: each sees itself.
    scores = q.double() @ q.double().T / 4
    assert scores.max() == 10_000
    assert scores.min() < -6_000
    ours = results(attend, [q, q, v, torch.ones_like(v)], device)
    torch.testing.assert_close(ours[0], v)
    for grad in ours[1:3]:
        torch.testing.assert_close(grad, torch.zeros_like(grad), rtol=0, atol=1e-3)
    torch.testing.assert_close(ours[3], torch.ones_like(v))


def check_that_heads_are_apart(attend, device="cpu"):
    """Demand that a head does not read the next one, where its last block goes beyond its end."""
    tensors = case((3, 70, 16), torch.float32)
    alone = results(attend, [x[1:2] for x in tensors], device)
    for x in tensors:
        x[::2] = torch.nan
    among = results(attend, tensors, device)
    assert all(torch.equal(x[1:2], y) for x, y in zip(among, alone, strict=True))


def check_views(attend, device="cpu"):
    """Demand the same bits of heads that lie side by side in memory, as a projection makes them."""
    tensors = case((1, 70, 2, 16), torch.float32)
    views = [x.transpose(1, 2) for x in tensors]
    copies = [x.contiguous() for x in views]
    ours = [results(attend, inputs, device) for inputs in (views, copies)]
    assert all(map(torch.equal, *ours))
