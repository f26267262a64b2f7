"""FlashAttention-style causal attention as Triton kernels: scores stay in registers.

FlashAttention is Dao et al. 2022, algorithm 1 (https://arxiv.org/abs/2205.14135). It differs from
the reference implementation, `scaled_dot_product_attention` in functional.py:

- online softmax (Milakov and Gimelshein 2018, https://arxiv.org/abs/1805.02867): if a later block
  has a higher score, the sums so far are scaled down;
- blocks above the diagonal are skipped;
- the backward recomputes p = softmax(s) from the saved log-normaliser of each row, so that the
  forward keeps seq numbers per head instead of seq^2. Then

      dL/dv = p^T dL/do
      dL/dp = dL/do v^T
      dL/ds = p * (dL/dp - delta),   delta = sum_j p_j dL/dp_j = sum(o * dL/do) of each row;

- one program handles one block of queries (or keys) of one head and loops over the keys (or
  queries), `step` at a time, so that all heads and blocks run in parallel (Dao 2023, sec. 3.2,
  https://arxiv.org/abs/2307.08691);
- the backward is two kernels, one per block of queries and one per block of keys. The scores are
  computed twice, but no sum needs atomic additions, so every run gives the same bits;
- exponentials are powers of two, which a GPU computes faster than powers of e.

float32 is multiplied as float32 ("ieee") and not as TF32, which would be faster but less precise
than the reference implementation.

Without a GPU the tests run the kernels in Triton's interpreter:
`make test ARGS=tests/project/fast/test_triton_attention.py`.
"""

# Annotations describe the values inside a kernel, not the launch arguments (pointers have no type).
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

import contextlib
import math
from collections.abc import Callable

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import BackwardCFunction, once_differentiable

LOG2_E = tl.constexpr(math.log2(math.e))
SMALLEST_PRODUCT = 16  # The shortest axis of a product on a tensor core.


@triton.jit
def load_rows(
    pointer: tl.tensor,
    rows: tl.tensor,
    seq_len: tl.tensor,
    d_head: tl.constexpr,
    block_d: tl.constexpr,
) -> tl.tensor:
    """Load rows of a head, with zeros beyond its last row and column."""
    columns = tl.arange(0, block_d)
    inside = (rows < seq_len)[:, None] & (columns < d_head)[None, :]
    return tl.load(pointer + rows[:, None] * d_head + columns[None, :], mask=inside, other=0.0)


@triton.jit
def store_rows(
    pointer: tl.tensor,
    values: tl.tensor,
    rows: tl.tensor,
    seq_len: tl.tensor,
    d_head: tl.constexpr,
    block_d: tl.constexpr,
) -> None:
    """Store rows of a head, rounded to its dtype, up to its last row and column."""
    columns = tl.arange(0, block_d)
    inside = (rows < seq_len)[:, None] & (columns < d_head)[None, :]
    tl.store(pointer + rows[:, None] * d_head + columns[None, :], values, mask=inside)


@triton.jit
def forward_kernel(
    q_pointer: tl.tensor,
    k_pointer: tl.tensor,
    v_pointer: tl.tensor,
    output_pointer: tl.tensor,
    log2_normaliser_pointer: tl.tensor,
    seq_len: tl.tensor,
    scale: tl.constexpr,
    d_head: tl.constexpr,
    block_d: tl.constexpr,
    block: tl.constexpr,
    step: tl.constexpr,
) -> None:
    """Compute the weighted mean of the values for a block of queries."""
    num_blocks = tl.cdiv(seq_len, block)
    head = (tl.program_id(0) // num_blocks).to(tl.int64)  # head * size may exceed 2^31.
    # The last queries see the most keys; they start first, so that no long program runs alone.
    first = (num_blocks - 1 - tl.program_id(0) % num_blocks) * block
    queries = first + tl.arange(0, block)
    at = head * seq_len * d_head
    q = load_rows(q_pointer + at, queries, seq_len, d_head, block_d)
    highest = tl.full([block], float("-inf"), tl.float32)
    total = tl.zeros([block], tl.float32)
    mixture = tl.zeros([block, block_d], tl.float32)
    # First the keys that all these queries see, then those around the diagonal. Every query sees
    # key 0, so the highest score is finite after the first step.
    for on_diagonal in tl.static_range(2):
        for start in range(first * on_diagonal, first + block * on_diagonal, step):
            keys = start + tl.arange(0, step)
            k = load_rows(k_pointer + at, keys, seq_len, d_head, block_d)
            v = load_rows(v_pointer + at, keys, seq_len, d_head, block_d)
            scores = tl.dot(q, tl.trans(k), input_precision="ieee") * (scale * LOG2_E)
            if on_diagonal:
                # Keys beyond the end are later than every query, so they are masked, too.
                scores = tl.where(keys[None, :] <= queries[:, None], scores, float("-inf"))
            higher = tl.maximum(highest, tl.max(scores, axis=1))
            shrink = tl.exp2(highest - higher)
            # Rounded before they are summed, so that the sum is that of the weights in use.
            weights = tl.exp2(scores - higher[:, None]).to(v.dtype)
            total = total * shrink + tl.sum(weights.to(tl.float32), axis=1)
            mixture = tl.dot(weights, v, mixture * shrink[:, None], input_precision="ieee")
            highest = higher
    store_rows(output_pointer + at, mixture / total[:, None], queries, seq_len, d_head, block_d)
    log2_normaliser = highest + tl.log2(total)
    at_row = head * seq_len + queries
    tl.store(log2_normaliser_pointer + at_row, log2_normaliser, mask=queries < seq_len)


@triton.jit
def query_gradient_kernel(
    q_pointer: tl.tensor,
    k_pointer: tl.tensor,
    v_pointer: tl.tensor,
    grad_pointer: tl.tensor,
    output_pointer: tl.tensor,
    log2_normaliser_pointer: tl.tensor,
    delta_pointer: tl.tensor,
    grad_q_pointer: tl.tensor,
    seq_len: tl.tensor,
    scale: tl.constexpr,
    d_head: tl.constexpr,
    block_d: tl.constexpr,
    block: tl.constexpr,
    step: tl.constexpr,
) -> None:
    """Compute dL/dq = dL/ds k of a block of queries, and delta for the other kernel."""
    num_blocks = tl.cdiv(seq_len, block)
    head = (tl.program_id(0) // num_blocks).to(tl.int64)
    first = (num_blocks - 1 - tl.program_id(0) % num_blocks) * block
    queries = first + tl.arange(0, block)
    at = head * seq_len * d_head
    at_row = head * seq_len + queries
    q = load_rows(q_pointer + at, queries, seq_len, d_head, block_d)
    grad = load_rows(grad_pointer + at, queries, seq_len, d_head, block_d)
    output = load_rows(output_pointer + at, queries, seq_len, d_head, block_d)
    log2_normaliser = tl.load(log2_normaliser_pointer + at_row, mask=queries < seq_len, other=0.0)
    delta = tl.sum(output.to(tl.float32) * grad.to(tl.float32), axis=1)
    tl.store(delta_pointer + at_row, delta, mask=queries < seq_len)
    grad_q = tl.zeros([block, block_d], tl.float32)
    for on_diagonal in tl.static_range(2):
        for start in range(first * on_diagonal, first + block * on_diagonal, step):
            keys = start + tl.arange(0, step)
            k = load_rows(k_pointer + at, keys, seq_len, d_head, block_d)
            v = load_rows(v_pointer + at, keys, seq_len, d_head, block_d)
            scores = tl.dot(q, tl.trans(k), input_precision="ieee") * (scale * LOG2_E)
            if on_diagonal:
                scores = tl.where(keys[None, :] <= queries[:, None], scores, float("-inf"))
            weights = tl.exp2(scores - log2_normaliser[:, None])
            grad_weights = tl.dot(grad, tl.trans(v), input_precision="ieee")
            grad_scores = (weights * (grad_weights - delta[:, None]) * scale).to(q.dtype)
            grad_q = tl.dot(grad_scores, k, grad_q, input_precision="ieee")
    store_rows(grad_q_pointer + at, grad_q, queries, seq_len, d_head, block_d)


@triton.jit
def key_value_gradient_kernel(
    q_pointer: tl.tensor,
    k_pointer: tl.tensor,
    v_pointer: tl.tensor,
    grad_pointer: tl.tensor,
    log2_normaliser_pointer: tl.tensor,
    delta_pointer: tl.tensor,
    grad_k_pointer: tl.tensor,
    grad_v_pointer: tl.tensor,
    seq_len: tl.tensor,
    scale: tl.constexpr,
    d_head: tl.constexpr,
    block_d: tl.constexpr,
    block: tl.constexpr,
    step: tl.constexpr,
) -> None:
    """Compute dL/dk = dL/ds^T q and dL/dv = p^T dL/do of a block of keys and values.

    Scores and weights are computed transposed, (keys, queries), as the products need them.
    """
    num_blocks = tl.cdiv(seq_len, block)
    head = (tl.program_id(0) // num_blocks).to(tl.int64)
    # The first keys are seen by the most queries, so the longest programs start first here.
    first = tl.program_id(0) % num_blocks * block
    keys = first + tl.arange(0, block)
    at = head * seq_len * d_head
    k = load_rows(k_pointer + at, keys, seq_len, d_head, block_d)
    v = load_rows(v_pointer + at, keys, seq_len, d_head, block_d)
    grad_k = tl.zeros([block, block_d], tl.float32)
    grad_v = tl.zeros([block, block_d], tl.float32)
    # First the queries around the diagonal, then those that see all these keys.
    for is_below in tl.static_range(2):
        end = seq_len if is_below else first + block
        for start in range(first + block * is_below, end, step):
            queries = start + tl.arange(0, step)
            # Queries beyond the end are loaded as zeros, as are their gradients: they add nothing.
            q = load_rows(q_pointer + at, queries, seq_len, d_head, block_d)
            grad = load_rows(grad_pointer + at, queries, seq_len, d_head, block_d)
            at_row = head * seq_len + queries
            inside = queries < seq_len
            log2_normaliser = tl.load(log2_normaliser_pointer + at_row, mask=inside, other=0.0)
            delta = tl.load(delta_pointer + at_row, mask=inside, other=0.0)
            scores = tl.dot(k, tl.trans(q), input_precision="ieee") * (scale * LOG2_E)
            if not is_below:
                scores = tl.where(keys[:, None] <= queries[None, :], scores, float("-inf"))
            weights = tl.exp2(scores - log2_normaliser[None, :])
            grad_v = tl.dot(weights.to(grad.dtype), grad, grad_v, input_precision="ieee")
            grad_weights = tl.dot(v, tl.trans(grad), input_precision="ieee")
            grad_scores = (weights * (grad_weights - delta[None, :]) * scale).to(q.dtype)
            grad_k = tl.dot(grad_scores, q, grad_k, input_precision="ieee")
    store_rows(grad_k_pointer + at, grad_k, keys, seq_len, d_head, block_d)
    store_rows(grad_v_pointer + at, grad_v, keys, seq_len, d_head, block_d)


class TritonCausalAttention(torch.autograd.Function):
    """o = softmax(s) v with s = q k^T / sqrt(d), causal, by the Triton kernels.

    torch.compile includes the kernels in its graph, without a graph break.
    """

    @staticmethod
    def forward(
        ctx: BackwardCFunction,
        q: Float[Tensor, "... seq d_head"],
        k: Float[Tensor, "... seq d_head"],
        v: Float[Tensor, "... seq d_head"],
    ) -> Float[Tensor, "... seq d_head"]:
        """Return the weighted mean of the values for each query."""
        # Saved contiguous, too: a view would keep the whole fused QKV result alive.
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        output, log2_normaliser = forward(q, k, v)
        ctx.save_for_backward(q, k, v, output, log2_normaliser)
        return output

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  as PyTorch wants it
        ctx: BackwardCFunction, grad: Float[Tensor, "... seq d_head"]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of q, k and v."""
        q, k, v, output, log2_normaliser = ctx.saved_tensors  # pyright: ignore[reportAssignmentType]
        return backward(grad.contiguous(), q, k, v, output, log2_normaliser)


def forward(
    q: Float[Tensor, "... seq d_head"],
    k: Float[Tensor, "... seq d_head"],
    v: Float[Tensor, "... seq d_head"],
) -> tuple[Float[Tensor, "... seq d_head"], Float[Tensor, "... seq"]]:
    """Run the forward kernel of causal attention.

    Args:
        q: Queries of any float dtype up to float32, contiguous, on a GPU.
        k: Keys, of the same shape and dtype.
        v: Values, of the same shape and dtype.

    Returns:
        The weighted means of the values; log2 of the softmax normaliser of each query, float32.
    """
    output = torch.empty_like(q)
    log2_normaliser = q.new_empty(q.shape[:-1], dtype=torch.float32)
    launch(forward_kernel, 1, q, k, v, output, log2_normaliser)
    return output, log2_normaliser


def backward(
    grad: Float[Tensor, "... seq d_head"],
    q: Float[Tensor, "... seq d_head"],
    k: Float[Tensor, "... seq d_head"],
    v: Float[Tensor, "... seq d_head"],
    output: Float[Tensor, "... seq d_head"],
    log2_normaliser: Float[Tensor, "... seq"],
) -> tuple[
    Float[Tensor, "... seq d_head"],
    Float[Tensor, "... seq d_head"],
    Float[Tensor, "... seq d_head"],
]:
    """Return the gradients of q, k and v.

    Args:
        grad: Gradient of the output, contiguous.
        q: As for forward.
        k: As for forward.
        v: As for forward.
        output: The first result of forward.
        log2_normaliser: The second result of forward.
    """
    grad_q, grad_k, grad_v = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    delta = torch.empty_like(log2_normaliser)
    rows = (log2_normaliser, delta)
    launch(query_gradient_kernel, 1, q, k, v, grad, output, *rows, grad_q)
    launch(key_value_gradient_kernel, 2, q, k, v, grad, *rows, grad_k, grad_v)
    return grad_q, grad_k, grad_v


def launch(
    kernel: triton.JITFunction[Callable[..., None]], num_sums: int, q: Tensor, *others: Tensor
) -> None:
    """Run a kernel with one program for each block of rows of each head.

    Args:
        kernel: The kernel.
        num_sums: Number of sums that a program accumulates, each of the shape of its block.
        q: Queries.
        others: The kernel's other tensors, in its order.
    """
    assert all(x.is_contiguous() for x in (q, *others))
    seq_len, d_head = q.shape[-2:]
    options = launch_options(d_head, q.element_size(), num_sums)
    num_programs = math.prod(q.shape[:-2]) * -(-seq_len // options["block"])
    if not num_programs:
        return
    # Compiled code selects the device itself.
    is_compiling = torch.compiler.is_compiling()
    with contextlib.nullcontext() if is_compiling else torch.cuda.device_of(q):
        kernel[(num_programs,)](q, *others, seq_len, 1 / math.sqrt(d_head), d_head, **options)


def launch_options(d_head: int, element_size: int, num_sums: int) -> dict[str, int]:
    """Return the block sizes, and the warps and pipeline stages of a program.

    The sums (`block` rows of float32 each) fit the registers without spills for 16-bit inputs, and
    two stages of the rows of a step fit the 99 KiB of shared memory of a laptop's GPU. This was
    read off the kernels compiled for compute capabilities 8.6 and 9.0; the speed of other sizes was
    not measured, for lack of a GPU.

    Args:
        d_head: Size of a head.
        element_size: Bytes of one number of the inputs.
        num_sums: Number of sums that a program accumulates.
    """
    # float32 runs without tensor cores and keeps its operands in registers, so fewer rows fit.
    room, longest = (4096, 64) if element_size == 4 else (16_384, 128)
    block_d = max(SMALLEST_PRODUCT, triton.next_power_of_2(d_head))
    block = min(longest, max(SMALLEST_PRODUCT, room // (block_d * num_sums)))
    step = min(block, longest // 2, max(SMALLEST_PRODUCT, 4096 // block_d))
    return {"block_d": block_d, "block": block, "step": step, "num_warps": 8, "num_stages": 2}
