"""Causal attention by its definition, and the gradients of any form of it."""

import torch

from cs_basics.functional import scaled_dot_product_attention


def definition(q, k, v):
    is_visible = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).tril()
    return scaled_dot_product_attention(q, k, v, is_visible)


def results(attend, tensors, device="cpu", dtype=None):
    """Return the output and the gradients of what it is computed from."""
    *inputs, grad = (x.to(device, dtype or x.dtype) for x in tensors)
    leaves = [x.requires_grad_() for x in inputs]
    output = attend(*leaves)
    return [x.detach().cpu() for x in (output, *torch.autograd.grad(output, leaves, grad))]
