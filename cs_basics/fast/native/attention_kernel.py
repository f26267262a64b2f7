"""The C++ kernel of RoPE and causal attention, for compiled models on a CPU.

torch.compile turns attention into a sequence of loops over all heads and sequences, each of which
reads and writes all scores in memory; RoPE and the split into heads are further loops. The kernel
reads the output of the fused QKV projection directly and keeps a tile in the L1 cache from
its scores to its share of the result. docs/performance.md has the figures.

`load_kernel` compiles attention_kernel.cpp with the C++ compiler that torch.compile needs anyway
(3 seconds, cached); `use_kernel` switches it on in a model.
"""

import ctypes
import hashlib
import logging
import os
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cs_basics.attention import CausalSelfAttention
from cs_basics.fast.attention import (
    FusedAttention,
    has_qk_norm,
)
from cs_basics.fast.compilation import compiled_code_folder, processor
from cs_basics.fast.rope import TabledRoPE

logger = logging.getLogger(__name__)

SOURCE = Path(__file__).with_suffix(".cpp")
FLAGS = ("-ffp-contract=fast",)  # Fused multiply-add: one instruction and one rounding.
HEAD_STEP = 32  # Each half of a head must consist of whole vectors of 16 numbers.
LARGEST_HEAD = 256
NAMES = {torch.bfloat16: "bfloat16", torch.float32: "float32"}

_kernel: ctypes.CDLL | None = None


def load_kernel() -> bool:
    """Load the kernel, compiling it unless it is cached; warn if that fails.

    Returns:
        Whether it is loaded.
    """
    global _kernel
    if _kernel is None:
        try:
            _kernel = compiled_kernel()
        except Exception as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
            logger.warning("the C++ kernel of attention is not used, which is slower: %s", reason)
    return _kernel is not None


def compiled_kernel(*flags: str) -> ctypes.CDLL:
    """Return the kernel, compiled with additional flags if any are given."""
    code = SOURCE.read_text(encoding="ascii")
    parts = [code, *FLAGS, *flags, torch.__version__, processor()]
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    library = compiled_code_folder() / f"attention_kernel_{name}.so"
    if not library.exists():
        # A private interface: torch has no public way to compile with the flags and the OpenMP of
        # torch.compile, so another version of torch may raise any error here. The library is copied
        # to our own cache, since importing this module takes 200 MB.
        from torch._inductor.codecache import CppCodeCache

        made: str = CppCodeCache.load(code, extra_flags=(*FLAGS, *flags))._name
        library.parent.mkdir(parents=True, exist_ok=True)
        # Renamed only when complete, since another run may load it at any time.
        partial = library.with_suffix(f".{os.getpid()}.tmp")
        partial.write_bytes(Path(made).read_bytes())
        partial.replace(library)
    try:
        return ctypes.CDLL(str(library))
    except OSError:
        library.unlink()  # Damaged: the next run compiles it again.
        raise


def use_kernel(model: nn.Module) -> bool:
    """Switch the kernel on in every attention layer that it supports; compile the model afterwards.

    It supports the layers of fast/attention.py without QK-norm, with heads of 32, 64, ... 256.

    Returns:
        Whether any attention uses the kernel.
    """
    able = [
        module
        for module in model.modules()
        if isinstance(module, FusedAttention) and can_use_kernel(module)
    ]
    if not able or not load_kernel():
        return False
    for attention in able:
        attention.kernel = rotated_causal_attention
    return True


def can_use_kernel(attention: CausalSelfAttention) -> bool:
    """Tell whether the kernel supports an attention layer."""
    weight, d_head = attention.q_proj.weight, attention.d_head
    return (
        not has_qk_norm(attention)
        and isinstance(attention.rope, TabledRoPE | None)
        and weight.device.type == "cpu"
        and weight.dtype in NAMES
        and d_head % HEAD_STEP == 0
        and d_head <= LARGEST_HEAD
    )


def rotated_causal_attention(
    qkv: Float[Tensor, "... seq d_qkv"],
    cos: Float[Tensor, "seq half"] | None,
    sin: Float[Tensor, "seq half"] | None,
    num_heads: int,
    num_kv_heads: int,
) -> Float[Tensor, "... seq d_model"]:
    """Apply RoPE and causal attention to the output of a fused QKV projection.

    Equal to `rotate_half_split` followed by causal attention, up to rounding.

    Args:
        qkv: Concatenated queries of all heads, keys and values; bfloat16 or float32. Products are
            computed in this dtype, everything else in float32.
        cos: Cosines of the angles at positions 0, 1, ... in float32; None: no RoPE.
        sin: Sines of the same angles.
        num_heads: Heads of queries.
        num_kv_heads: Heads of keys and values, a divisor of num_heads.

    Returns:
        The concatenated results of all heads, in the dtype of qkv.
    """
    rows = qkv.reshape(-1, *qkv.shape[-2:])
    operator = torch.ops.cs_basics.rotated_causal_attention
    attended, _ = operator(rows, cos, sin, num_heads, num_kv_heads)
    return attended.reshape(*qkv.shape[:-1], attended.shape[-1])


# Custom operators, opaque to torch.compile. Not made by torch.library.custom_op, which imports the
# compiler.
_OPERATORS = torch.library.Library("cs_basics", "FRAGMENT")
_FORWARD, _BACKWARD = "rotated_causal_attention", "rotated_causal_attention_backward"
_ARGUMENTS = "Tensor qkv, Tensor? cos, Tensor? sin, {}int num_heads, int num_kv_heads"
_OPERATORS.define(f"{_FORWARD}({_ARGUMENTS.format('')}) -> (Tensor, Tensor)")
_SAVED = "Tensor attended, Tensor log_normalisers, Tensor grad, "
_OPERATORS.define(f"{_BACKWARD}({_ARGUMENTS.format(_SAVED)}) -> Tensor")


def _forward(
    qkv: Tensor, cos: Tensor | None, sin: Tensor | None, num_heads: int, num_kv_heads: int
) -> tuple[Tensor, Tensor]:
    """Return the results, and log2 of the normaliser of each softmax.

    Raises:
        ValueError: As in `check`.
    """
    check(qkv, cos, sin, num_heads, num_kv_heads)
    qkv = qkv.contiguous()
    attended, log_normalisers = _forward_shapes(qkv, cos, sin, num_heads, num_kv_heads)
    outputs = (attended, log_normalisers)
    _call("forward", (qkv, *_angles(qkv, cos, sin), *outputs), attended, num_heads, num_kv_heads)
    return outputs


def check(
    qkv: Tensor, cos: Tensor | None, sin: Tensor | None, num_heads: int, num_kv_heads: int
) -> None:
    """Validate the arguments of the kernel, which does no checks and would read out of bounds.

    Raises:
        ValueError: The sizes do not fit together, or the kernel does not support them.
    """
    seq, d_qkv = qkv.shape[1:]
    d_head, rest = divmod(d_qkv, num_heads + 2 * num_kv_heads)
    if rest or num_heads % num_kv_heads or d_head % HEAD_STEP or d_head > LARGEST_HEAD:
        raise ValueError(
            f"{d_qkv} numbers for {num_heads} heads of queries and {num_kv_heads} of keys and "
            f"values: the kernel has heads of {HEAD_STEP}, {2 * HEAD_STEP}, ... {LARGEST_HEAD}"
        )
    if qkv.dtype not in NAMES:
        raise ValueError(f"{qkv.dtype}: the kernel is for {' and '.join(NAMES.values())}")
    for name, table in (("cos", cos), ("sin", sin)):
        if (table is None) is not (cos is None):
            raise ValueError("cos and sin: both or none")
        if table is not None and (table.shape[0] < seq or table.shape[1] != d_head // 2):
            raise ValueError(
                f"{name} of shape {tuple(table.shape)} has no angles for {seq} positions and "
                f"heads of {d_head}"
            )


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
    operator = torch.ops.cs_basics.rotated_causal_attention_backward
    return operator(*ctx.saved_tensors, grad, *heads), None, None, None, None


for _name, _compute, _shapes in (
    (_FORWARD, _forward, _forward_shapes),
    (_BACKWARD, _backward, _backward_shapes),
):
    _OPERATORS.impl(_name, _compute, "CPU")
    torch.library.register_fake(f"cs_basics::{_name}", _shapes, lib=_OPERATORS)
torch.library.register_autograd(
    f"cs_basics::{_FORWARD}", _differentiate, setup_context=_keep, lib=_OPERATORS
)


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
    """Call a function of the kernel with the addresses of tensors and the sizes."""
    if not load_kernel():
        raise RuntimeError("compiled with the C++ kernel of attention, which cannot be loaded now")
    batch, seq, d_model = attended.shape
    addresses = [ctypes.c_void_p(None if x is None else x.data_ptr()) for x in tensors]
    sizes = (batch, seq, num_heads, num_kv_heads, d_model // num_heads)
    function = getattr(_kernel, f"{name}_{NAMES[attended.dtype]}")
    function(*addresses, *(ctypes.c_long(size) for size in sizes))
