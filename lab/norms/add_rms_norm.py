"""The residual addition and the next norm in one function, for training and for inference.

In a pre-norm block the new residual stream is written to memory and read again by the next norm. In
one call, a kernel or a compiler can normalise it while it is still in registers. Three forms, which
agree in float32 and differ in bfloat16 in what the norm reads:

add_rms_norm             the rounded sum: what the two operations give, one after the other
add_rms_norm_unrounded   the sum in float32, before it is rounded for the stream: inference engines
add_rms_norm_            the same as the second, written over its inputs: no backward, less memory

A bfloat16 has 8 significant bits: around 300 its neighbours are 2 apart, and the rounded sum loses
every update below 1. The unrounded norm still sees such an update, once; the stream has lost it in
all three forms. The right form for a model is the one that it was trained with.
"""

import torch
from torch import Tensor

from cs_basics.norms import RMSNorm
from cs_basics.variants.norms import LlamaRMSNorm, reciprocal_rms, widen
from lab.norms.rms_norm import (
    FusedLlamaRMSNorm,
    FusedRMSNorm,
    RMSNormFunction,
    add_and_normalise_plainly,
)
from lab.norms.shapes import Vectors

Pair = tuple[Vectors, Vectors]


def add_rms_norm(norm: RMSNorm, x: Vectors, residual: Vectors) -> Pair:
    """Add x to the residual stream and normalise the rounded sum: (normalised, new_residual).

    The sum is rounded to the wider of the two dtypes before it is normalised, so that the results
    are those of an addition and a norm.

    Args:
        norm: RMSNorm or LlamaRMSNorm; for their fused twins RMSNormFunction is used.
        x: Output of an attention or feed-forward part.
        residual: The residual stream, same shape.

    Raises:
        ValueError: x and residual differ in shape.
    """
    check_shapes(x, residual)
    if not isinstance(norm, FusedRMSNorm):
        new_residual = residual + x
        return norm(new_residual), new_residual
    return add_and_normalise(norm, x, residual, reads_rounded=True)


def add_rms_norm_unrounded(norm: RMSNorm, x: Vectors, residual: Vectors) -> Pair:
    """Add x to the residual stream and normalise the unrounded sum: (normalised, new_residual).

    Both results are rounded from one sum in at least float32, each by itself: the fused addition
    of vLLM and of the engines after it (https://github.com/vllm-project/vllm, `forward_native` of
    its RMSNorm). new_residual has the bits that `add_rms_norm` gives it. The backward reads the
    rounded sum, the only one that is kept.

    Args:
        norm: RMSNorm, LlamaRMSNorm or a fused twin; gives gain, eps and order of cast and gain.
        x: Output of an attention or feed-forward part.
        residual: The residual stream, same shape.

    Raises:
        TypeError: The norm is of another class, with a gain or a mean square of its own.
        ValueError: x and residual differ in shape.
    """
    check_norm(norm)
    check_shapes(x, residual)
    return add_and_normalise(norm, x, residual, reads_rounded=False)


def add_rms_norm_(norm: RMSNorm, x: Vectors, residual: Vectors) -> Pair:
    """Write the results of `add_rms_norm_unrounded` over x and residual, and return these.

    The one buffer that is allocated is the sum in float32 (and its squares for a moment). It has to
    be a buffer of its own, whatever the dtype of x. Commonly copied code says

        sum = x.float().add_(residual.float())
        residual = sum.to(x.dtype)
        sum.mul_(rsqrt(...))

    and works for bfloat16, where `float` and `to` make new tensors. For float32 both return the
    tensor that they are given: `add_` then overwrites the caller's x, `residual` names the same
    tensor, and `mul_` normalises the residual stream, so that every later block reads
    normalised vectors in place of the sum. No error is raised. Here the conversion copies.

    Args:
        norm: As in `add_rms_norm_unrounded`.
        x: As there; becomes the normalised sum.
        residual: As there, with the dtype of x; becomes the sum.

    Raises:
        TypeError: As in `add_rms_norm_unrounded`.
        ValueError: x and residual differ in shape or dtype, or a gradient would need what is
            overwritten.
    """
    check_norm(norm)
    check_shapes(x, residual)
    if residual.dtype != x.dtype:
        raise ValueError(f"residual of {residual.dtype} must have the dtype of x, {x.dtype}")
    if torch.is_grad_enabled() and any(t.requires_grad for t in (x, residual, norm.weight)):
        raise ValueError("add_rms_norm_ has no backward: call it under torch.no_grad()")
    wide = x.to(widen(x[:0]).dtype, copy=True).add_(residual)
    residual.copy_(wide)
    wide.mul_(reciprocal_rms(wide, norm.eps))
    if isinstance(norm, LlamaRMSNorm):
        return x.copy_(wide).mul_(norm.weight), residual
    return x.copy_(wide.mul_(norm.weight)), residual


def add_and_normalise(norm: RMSNorm, x: Tensor, residual: Tensor, *, reads_rounded: bool) -> Pair:
    """Return the normalised sum and the sum: by RMSNormFunction, but not in compiled code.

    There a compiler derives the backward, and fuses it. PyTorch 2.11's takes the gradients of a
    Function with these two results for zeros, without a word.
    """
    is_compiling = torch.compiler.is_compiling()
    compute = add_and_normalise_plainly if is_compiling else RMSNormFunction.apply
    casts_first = isinstance(norm, LlamaRMSNorm)
    return compute(x, residual, norm.weight, norm.eps, casts_first, reads_rounded)[:2]


def check_norm(norm: RMSNorm) -> None:
    """Refuse a norm of which weight and eps do not tell all.

    Raises:
        TypeError: It is not RMSNorm, LlamaRMSNorm or a fused twin.
    """
    if type(norm) not in (RMSNorm, LlamaRMSNorm, FusedRMSNorm, FusedLlamaRMSNorm):
        raise TypeError(f"{type(norm).__name__} must be RMSNorm or LlamaRMSNorm")


def check_shapes(x: Tensor, residual: Tensor) -> None:
    """Refuse a residual that would be broadcast.

    Raises:
        ValueError: x and residual differ in shape.
    """
    if residual.shape != x.shape:
        raise ValueError(
            f"residual of shape {tuple(residual.shape)} must be like x, {tuple(x.shape)}"
        )
