"""RMSNorm as Triton kernels for GPUs: each vector is read once and stays in registers.

The formulas are those of norms.py and rms_norm.py; read them first. One program holds one vector;
everything is computed in float32.
"""

# Annotations describe the values inside a kernel, not the launch arguments (pointers have no type).
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

import torch
import triton
import triton.language as tl
from triton.language import constexpr, tensor

from lab.norms.shapes import Gain, Reciprocals, Vectors

ELEMENTS_PER_WARP = 512  # 16 numbers for each of 32 threads.
MAX_WARPS = 16
PROGRAMS_PER_PROCESSOR = 4  # Enough to hide the wait for memory, few enough partial sums.


@triton.jit
def load(pointers: tensor, inside: tensor) -> tensor:
    """Read numbers in float32, and 0 outside of a vector."""
    return tl.load(pointers, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def forward_kernel(
    x_pointer: tensor,
    residual_pointer: tensor,
    weight_pointer: tensor,
    y_pointer: tensor,
    new_residual_pointer: tensor,
    reciprocal_pointer: tensor,
    d_model: tensor,
    eps: tensor,
    has_residual: constexpr,
    reads_rounded: constexpr,
    cast_before_gain: constexpr,
    block: constexpr,
) -> None:
    """Normalise the vector of this program, after adding the residual stream if there is one."""
    row = tl.program_id(0).to(tl.int64)  # row * d_model may exceed 2^31.
    columns = tl.arange(0, block)
    inside = columns < d_model
    at = row * d_model + columns
    x = load(x_pointer + at, inside)
    if has_residual:
        x += load(residual_pointer + at, inside)
        rounded = x.to(new_residual_pointer.dtype.element_ty)
        tl.store(new_residual_pointer + at, rounded, mask=inside)
        if reads_rounded:
            x = rounded.to(tl.float32)

    mean_square = tl.sum(x * x, axis=0) / d_model
    reciprocal = tl.rsqrt(mean_square + eps)
    tl.store(reciprocal_pointer + row, reciprocal)

    weight = load(weight_pointer + columns, inside)
    normalised = x * reciprocal
    if cast_before_gain:
        normalised = normalised.to(y_pointer.dtype.element_ty).to(tl.float32)
    tl.store(y_pointer + at, normalised * weight, mask=inside)  # store casts.


@triton.jit
def backward_kernel(
    grad_pointer: tensor,
    x_pointer: tensor,
    weight_pointer: tensor,
    reciprocal_pointer: tensor,
    grad_residual_pointer: tensor,
    grad_x_pointer: tensor,
    partial_grad_weight_pointer: tensor,
    num_rows: tensor,
    d_model: tensor,
    has_residual: constexpr,
    block: constexpr,
) -> None:
    """Compute the gradients of every num_programs-th vector and their share of the gain's."""
    program = tl.program_id(0)
    columns = tl.arange(0, block)
    inside = columns < d_model
    weight = load(weight_pointer + columns, inside)
    grad_weight = tl.zeros([block], dtype=tl.float32)
    at = program.to(tl.int64) * d_model + columns
    step = tl.num_programs(0).to(tl.int64) * d_model
    for row in range(program, num_rows, tl.num_programs(0)):
        x = load(x_pointer + at, inside)
        grad = load(grad_pointer + at, inside)
        reciprocal = tl.load(reciprocal_pointer + row)
        normalised = x * reciprocal
        grad_weight += grad * normalised
        grad_normalised = grad * weight
        along_x = tl.sum(grad_normalised * normalised, axis=0) / d_model
        grad_x = (grad_normalised - normalised * along_x) * reciprocal
        if has_residual:
            grad_x += load(grad_residual_pointer + at, inside)
        tl.store(grad_x_pointer + at, grad_x, mask=inside)
        at += step
    at = program.to(tl.int64) * d_model + columns
    tl.store(partial_grad_weight_pointer + at, grad_weight, mask=inside)


def forward(
    x: Vectors,
    residual: Vectors | None,
    weight: Gain,
    eps: float,
    cast_before_gain: bool,
    reads_rounded: bool,
) -> tuple[Vectors, Vectors, Reciprocals]:
    """Normalise x, or residual + x.

    Args:
        x: Vectors of any float dtype up to float32, on a GPU.
        residual: Added to x first; the sum has the wider of the two dtypes.
        weight: The gain.
        eps: Added to the mean square.
        cast_before_gain: The order of cast and gain.
        reads_rounded: Normalise the sum in that dtype; else the sum in float32.

    Returns:
        The normalised vectors; the sum residual + x (x itself without a residual); the reciprocal
        root mean square of each vector, float32.
    """
    x = x.contiguous()
    d_model = x.shape[-1]
    if residual is None:
        new_residual = x
    else:
        residual = residual.contiguous()
        dtype = torch.promote_types(x.dtype, residual.dtype)
        new_residual = torch.empty_like(x, dtype=dtype)
    y = torch.empty_like(new_residual)
    reciprocal = x.new_empty((*x.shape[:-1], 1), dtype=torch.float32)
    if num_rows := reciprocal.numel():
        with torch.cuda.device_of(x):
            forward_kernel[(num_rows,)](
                x,
                residual,
                weight,
                y,
                new_residual,
                reciprocal,
                d_model,
                eps,
                has_residual=residual is not None,
                reads_rounded=reads_rounded,
                cast_before_gain=cast_before_gain,
                **launch_options(d_model),
            )
    return y, new_residual, reciprocal


def backward(
    grad: Vectors,
    x: Vectors,
    weight: Gain,
    reciprocal: Reciprocals,
    grad_residual: Vectors | None = None,
) -> tuple[Vectors, Gain]:
    """Return the gradients of x and of the gain.

    Each program sums the gain's gradient over its own vectors, and the partial sums are added in a
    fixed order. Atomic additions would make the result differ in its last bits from run to run.

    Args:
        grad: Gradient of the normalised vectors.
        x: The vectors before the norm: the second result of forward.
        weight: The gain.
        reciprocal: The third result of forward.
        grad_residual: Gradient of the residual stream, added to the gradient of x.
    """
    x, grad = x.contiguous(), grad.contiguous()
    d_model, num_rows = x.shape[-1], reciprocal.numel()
    if grad_residual is not None:
        grad_residual = grad_residual.contiguous()
    grad_x = torch.empty_like(x)
    num_programs = min(num_rows, PROGRAMS_PER_PROCESSOR * num_processors(x.device))
    partial_grad_weight = x.new_empty((num_programs, d_model), dtype=torch.float32)
    if num_programs:
        with torch.cuda.device_of(x):
            backward_kernel[(num_programs,)](
                grad,
                x,
                weight,
                reciprocal,
                grad_residual,
                grad_x,
                partial_grad_weight,
                num_rows,
                d_model,
                has_residual=grad_residual is not None,
                **launch_options(d_model),
            )
    return grad_x, partial_grad_weight.sum(dim=0).to(weight.dtype)


def launch_options(d_model: int) -> dict[str, int]:
    """Return the block size, a power of two that holds a vector, and the number of warps."""
    block = triton.next_power_of_2(d_model)
    return {"block": block, "num_warps": min(max(block // ELEMENTS_PER_WARP, 1), MAX_WARPS)}


def num_processors(device: torch.device) -> int:
    """Return the number of multiprocessors; 1 for Triton's interpreter on a CPU."""
    if device.type == "cpu":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count
