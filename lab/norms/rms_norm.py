"""RMSNorm with a backward derived by hand, which keeps fewer tensors in uncompiled code.

The reference implementation is RMSNorm in norms.py. Autograd keeps every intermediate of it; the
derived backward needs x and one number per vector. A compiler finds that out by itself, so in
compiled code FusedRMSNorm computes the book's formula.
"""

import importlib.util

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import BackwardCFunction, once_differentiable

from cs_basics.norms import RMSNorm
from cs_basics.variants.norms import LlamaRMSNorm, reciprocal_rms, widen
from lab.norms.shapes import Gain, Reciprocals, Vectors

# The kernels are imported in the functions that call them, so that Triton is optional.
HAS_TRITON = importlib.util.find_spec("triton") is not None
ROWS_PER_GROUP = 64
LONGEST_KERNEL_ROW = 65_536  # A kernel holds its whole vector in registers.


class FusedRMSNorm(RMSNorm):
    """RMSNorm computed by RMSNormFunction: same arguments, same results, less memory.

    For the reference implementation autograd keeps two float32 tensors of the size of x. Here it
    keeps x itself and one float32 per vector: for bfloat16 2 bytes per coordinate instead of 8.

    On CUDA devices with Triton installed, forward and backward are one kernel each.
    """

    def forward(
        self, x: Float[Tensor, "... {self.d_model}"]
    ) -> Float[Tensor, "... {self.d_model}"]:
        """Return the normalised x, same shape and dtype."""
        if torch.compiler.is_compiling():
            return super().forward(x)
        casts_first = isinstance(self, LlamaRMSNorm)
        return RMSNormFunction.apply(x, None, self.weight, self.eps, casts_first, True)[0]


class FusedLlamaRMSNorm(FusedRMSNorm, LlamaRMSNorm):
    """LlamaRMSNorm computed by RMSNormFunction."""


class RMSNormFunction(torch.autograd.Function):
    """RMSNorm of x (..., d) with the gain w (d): y_i = n_i w_i, n_i = x_i / R.

    R = sqrt(mean(x^2) + eps) is one number per vector. Let g_i = dL/dy_i.

    The gain: w_i meets the n_i of every vector, so that dL/dw_i = sum over the vectors of g_i n_i.

    The input: let h_i = dL/dn_i = g_i w_i. x_j acts on n_j directly, and on every n_i through R:

        dR/dx_j = 1 / (2 R) * 2 x_j / d = n_j / d

        dL/dx_j = h_j / R + sum_i h_i dn_i/dR dR/dx_j
                = h_j / R - sum_i h_i (x_i / R^2) n_j / d
                = (h_j - n_j mean(h n)) / R

    The mean removes from h its component along x, since the norm undoes any scaling of x: for
    eps = 0, dL/dx is orthogonal to x. The larger x and so R, the smaller the gradient. Only x, w
    and 1 / R are saved, since n = x / R.

    With a residual stream, x + residual is normalised, and returned beside the result. Both terms
    of the sum have the same gradient: dL/dx = dL/d(residual) = the gradient through the norm plus
    the gradient of the sum.

    Casts are differentiated as the identity, in both orders of cast and gain.
    """

    @staticmethod
    def forward(
        ctx: BackwardCFunction,
        x: Vectors,
        residual: Vectors | None,
        weight: Gain,
        eps: float,
        cast_before_gain: bool,
        reads_rounded: bool,
    ) -> tuple[Vectors, Vectors | None]:
        """Return the normalised x or sum, and the sum (None without a residual stream)."""
        if runs_on_triton(x):
            from lab.norms import triton_norms

            compute = triton_norms.forward
        else:
            compute = add_and_normalise_plainly
        y, summed, reciprocal = compute(x, residual, weight, eps, cast_before_gain, reads_rounded)
        ctx.save_for_backward(summed, weight, reciprocal)
        return y, None if residual is None else summed

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  as PyTorch wants it
        ctx: BackwardCFunction,
        grad: Vectors,
        grad_summed: Vectors | None,
    ) -> tuple[Tensor, Tensor | None, Tensor, None, None, None]:
        """Return the gradients of x, of the residual stream and of the gain."""
        summed, weight, reciprocal = ctx.saved_tensors  # pyright: ignore[reportAssignmentType]
        grad_x, grad_weight = gradients(grad, summed, weight, reciprocal, grad_summed)
        # Autograd casts the first two to each term's dtype.
        return grad_x, None if grad_summed is None else grad_x, grad_weight, None, None, None


def add_and_normalise_plainly(
    x: Vectors,
    residual: Vectors | None,
    weight: Gain,
    eps: float,
    cast_before_gain: bool,
    reads_rounded: bool,
) -> tuple[Vectors, Vectors, Reciprocals]:
    """Return what triton_norms.forward returns, by the formulas."""
    summed = x if residual is None else residual + x
    wide = widen(summed)
    if not (residual is None or reads_rounded):
        wide = widen(residual) + widen(x)
    reciprocal = reciprocal_rms(wide, eps)
    normalised = wide * reciprocal
    if cast_before_gain:
        normalised = normalised.to(summed.dtype)
    return (normalised * weight).to(summed.dtype), summed, reciprocal


def gradients(
    grad: Vectors,
    x: Vectors,
    weight: Gain,
    reciprocal: Reciprocals,
    grad_x: Vectors | None = None,
) -> tuple[Vectors, Gain]:
    """Return the gradients of x (plus grad_x, if given) and of the gain."""
    if runs_on_triton(x):
        from lab.norms import triton_norms

        return triton_norms.backward(grad, x, weight, reciprocal, grad_x)
    normalised = widen(x) * reciprocal
    grad_normalised = widen(grad) * weight
    grad_weight = sum_rows((widen(grad) * normalised).reshape(-1, x.shape[-1]))
    along_x = (grad_normalised * normalised).mean(dim=-1, keepdim=True)
    grad_input = (grad_normalised - normalised * along_x) * reciprocal
    if grad_x is not None:
        grad_input = grad_input + grad_x
    return grad_input.to(x.dtype), grad_weight.to(weight.dtype)


def sum_rows(products: Float[Tensor, "rows d"]) -> Gain:
    """Return the sum of all rows, summed in groups that fit the cache.

    Compiled code for a plain sum walks down all rows for 16 columns at a time, and every step
    touches another page of memory.
    """
    num_groups = products.shape[0] // ROWS_PER_GROUP
    num_grouped = num_groups * ROWS_PER_GROUP
    if num_groups == 0:
        return products.sum(dim=0)
    in_groups = products[:num_grouped].unflatten(0, (num_groups, ROWS_PER_GROUP))
    return in_groups.sum(dim=1).sum(dim=0) + products[num_grouped:].sum(dim=0)


def runs_on_triton(x: Tensor) -> bool:
    """Tell whether the Triton kernels are used for x.

    They compute in float32, so float64 is excluded. Compiled code uses the formulas above, which a
    compiler can fuse with the operations around them.
    """
    return (
        x.is_cuda
        and x.dtype != torch.float64
        and x.shape[-1] <= LONGEST_KERNEL_ROW
        and not torch.compiler.is_compiling()
        and HAS_TRITON
    )
