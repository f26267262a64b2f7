"""Causal attention of a compiled model on a processor: attention_kernel.cpp, and when it is used.

A compiler makes of tiled_attention.py a row of loops over all heads and sequences, each of which
reads and writes tiles in memory, and of the rotation and of "heads side by side" further ones. The
kernel takes queries, keys and values as the projection leaves them, and keeps a tile in the
innermost cache from its scores to its part of the result: docs/performance.md has the figures.

It is compiled when a model is compiled for the first time, with the compiler that torch.compile
needs in any case, and kept with what that keeps (3 seconds). Tested by
`make test ARGS=tests/project/test_attention_kernel.py`.
"""

import ctypes
import functools
import logging
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

logger = logging.getLogger(__name__)

SOURCE = Path(__file__).with_suffix(".cpp")
HEAD_STEP = 32  # Half a head is rotated in whole vectors of 16 numbers.
LARGEST_HEAD = 256
NAMES = {torch.bfloat16: "bfloat16", torch.float32: "float32"}


@functools.cache
def load_kernel() -> ctypes.CDLL | None:
    """Compile and load the kernel; where that fails, warn and return None."""
    try:
        return compile_kernel()
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        logger.warning("the C++ kernel of attention is not used, which is slower: %s", reason)
        return None


def compile_kernel(*flags: str) -> ctypes.CDLL:
    """Compile the kernel, unless that was done before, with further flags for the compiler."""
    # Not of torch's public interface, which has no way to compile with the flags, the cache and the
    # OpenMP of torch.compile; with another version of torch, expect any error.
    from torch._inductor.codecache import CppCodeCache

    # A product and a sum are one instruction and one rounding.
    flags = ("-ffp-contract=fast", *flags)
    return CppCodeCache.load(SOURCE.read_text(encoding="ascii"), extra_flags=flags)


@torch.compiler.assume_constant_result
def has_kernel() -> bool:
    """Tell whether there is a kernel, for a compiler to remember."""
    return load_kernel() is not None


def can_attend(qkv: Float[Tensor, "... seq d_qkv"], d_head: int) -> bool:
    """Tell whether the kernel takes projections with heads of d_head."""
    return (
        qkv.device.type == "cpu"
        and qkv.dtype in NAMES
        and d_head % HEAD_STEP == 0
        and d_head <= LARGEST_HEAD
        and has_kernel()
    )


def rotated_causal_attention(
    qkv: Float[Tensor, "... seq d_qkv"],
    cos: Float[Tensor, "seq half"] | None,
    sin: Float[Tensor, "seq half"] | None,
    num_heads: int,
    num_kv_heads: int,
) -> Float[Tensor, "... seq d_model"]:
    """Rotate queries and keys, and average the values up to each query's own position.

    Same as `RotaryPositionalEmbedding.rotate_halves` and `tiled_causal_attention` on the heads, up
    to rounding. Call it only where `can_attend` is true.

    Args:
        qkv: Queries of all heads side by side, then keys, then values; bfloat16 or float32.
            Products are computed in this dtype, everything else in float32.
        cos: Cosines of the angles at positions 0, 1, ... in float32; None: nothing is rotated.
        sin: Their sines.
        num_heads: Heads of queries.
        num_kv_heads: Heads of keys and values, a divisor of num_heads.

    Returns:
        The heads' results side by side, in the dtype of qkv.
    """
    rows = qkv.reshape(-1, *qkv.shape[-2:])
    attended, _ = _forward(rows, cos, sin, num_heads, num_kv_heads)
    return attended.reshape(*qkv.shape[:-1], attended.shape[-1])


@torch.library.custom_op("cs_basics::rotated_causal_attention", mutates_args=())
def _forward(
    qkv: Tensor, cos: Tensor | None, sin: Tensor | None, num_heads: int, num_kv_heads: int
) -> tuple[Tensor, Tensor]:
    """Return the results, and the logarithm (to base 2) of each softmax's normaliser."""
    qkv = qkv.contiguous()
    attended, log_normalisers = _forward_shapes(qkv, cos, sin, num_heads, num_kv_heads)
    outputs = (attended, log_normalisers)
    _call("forward", (qkv, *_angles(qkv, cos, sin), *outputs), attended, num_heads, num_kv_heads)
    return outputs


@_forward.register_fake
def _forward_shapes(
    qkv: Tensor,
    cos: Tensor | None,  # noqa: ARG001  all operators have the same arguments
    sin: Tensor | None,  # noqa: ARG001
    num_heads: int,
    num_kv_heads: int,
) -> tuple[Tensor, Tensor]:
    batch, seq, d_qkv = qkv.shape
    d_head = d_qkv // (num_heads + 2 * num_kv_heads)
    attended = qkv.new_empty(batch, seq, num_heads * d_head)
    return attended, qkv.new_empty(batch, num_heads, seq, dtype=torch.float32)


@torch.library.custom_op("cs_basics::rotated_causal_attention_backward", mutates_args=())
def _backward(
    qkv: Tensor,
    cos: Tensor | None,
    sin: Tensor | None,
    attended: Tensor,
    log_normalisers: Tensor,
    grad: Tensor,
    num_heads: int,
    num_kv_heads: int,
) -> Tensor:
    """Return the gradient of qkv."""
    qkv, attended, grad = qkv.contiguous(), attended.contiguous(), grad.contiguous()
    grad_qkv = torch.empty_like(qkv)
    tensors = (qkv, *_angles(qkv, cos, sin), attended, log_normalisers, grad, grad_qkv)
    _call("backward", tensors, attended, num_heads, num_kv_heads)
    return grad_qkv


@_backward.register_fake
def _backward_shapes(qkv: Tensor, *_: object) -> Tensor:
    return torch.empty_like(qkv, memory_format=torch.contiguous_format)


def _keep(
    ctx: torch.autograd.function.FunctionCtx,
    inputs: tuple[Tensor, Tensor | None, Tensor | None, int, int],
    output: tuple[Tensor, Tensor],
) -> None:
    *tensors, num_heads, num_kv_heads = inputs
    ctx.save_for_backward(*tensors, *output)  # pyright: ignore[reportArgumentType]  None is none
    ctx.heads = (num_heads, num_kv_heads)  # pyright: ignore[reportAttributeAccessIssue]


def _differentiate(
    ctx: torch.autograd.function.BackwardCFunction, grad: Tensor, _: Tensor
) -> tuple[Tensor, None, None, None, None]:
    heads: tuple[int, int] = ctx.heads  # pyright: ignore[reportAttributeAccessIssue]
    return _backward(*ctx.saved_tensors, grad, *heads), None, None, None, None


_forward.register_autograd(_differentiate, setup_context=_keep)


def _angles(qkv: Tensor, cos: Tensor | None, sin: Tensor | None) -> tuple[Tensor | None, ...]:
    seq = qkv.shape[1]
    return tuple(None if x is None else x[:seq].float().contiguous() for x in (cos, sin))


def _call(
    name: str,
    tensors: tuple[Tensor | None, ...],
    attended: Float[Tensor, "batch seq d_model"],
    num_heads: int,
    num_kv_heads: int,
) -> None:
    """Call one of the kernel's functions, with the addresses of tensors and the sizes."""
    kernel = load_kernel()
    assert kernel is not None
    batch, seq, d_model = attended.shape
    addresses = [ctypes.c_void_p(None if x is None else x.data_ptr()) for x in tensors]
    sizes = (batch, seq, num_heads, num_kv_heads, d_model // num_heads)
    function = getattr(kernel, f"{name}_{NAMES[attended.dtype]}")
    function(*addresses, *(ctypes.c_long(size) for size in sizes))
